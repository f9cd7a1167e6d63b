"""A TensorFlow parameter server: the task that TF_CONFIG names, until the launcher ends it."""

import importlib
import json
import os


def main() -> None:
    """Serve. The launcher ends this process when the job has ended."""
    tf = importlib.import_module("tensorflow")
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    server = tf.distribute.Server(
        tf.train.ClusterSpec(config["cluster"]), job_name=task["type"], task_index=task["index"], protocol="grpc"
    )
    server.join()


if __name__ == "__main__":
    main()
