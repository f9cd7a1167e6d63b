"""The job's entry point on every host: finds its group, starts that group's program, and at last ends the data hosts.

Jobs for heterogeneous clusters that are older than dlc have such a program of their own.
"""

import os
import socket
import subprocess
import sys
import time

from sagemaker_training import environment

END_PORT = 16000
TRIES = 60


def start(program, *more):
    """The hyperparameters go on to the program, which is named relative to the folder of the code."""
    return subprocess.Popen(["python", f"./{program}", *sys.argv[1:], *more])


def end_data_service(host):
    """A connection is the whole message."""
    for _ in range(TRIES):
        try:
            socket.create_connection((host, END_PORT)).close()
            print(f"told {host} to end", flush=True)
            return
        except OSError as error:
            print(f"{host} cannot be told to end yet: {error}", flush=True)
            time.sleep(1)


def main():
    env = environment.Environment()
    if not env.is_hetero:
        return start("train_dnn.py", "--data_hosts", env.current_host).wait()
    groups = {name: group["hosts"] for name, group in env.instance_groups_dict.items()}
    print(f"{env.current_host} is a {env.current_instance_type} of {env.current_instance_group}", flush=True)
    if env.current_instance_group == "data_group":
        code = start("train_data.py").wait()
        return 0 if code == -9 else code  # the program ends itself so
    if os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0") == "0":
        start("train_data.py")  # the CPUs of the training host help
    serving = groups["data_group"] + groups["dnn_group"]
    code = start("train_dnn.py", "--data_hosts", ",".join(serving)).wait()
    if env.current_host == groups["dnn_group"][0] and os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
        for host in serving:
            end_data_service(host)
    return code


if __name__ == "__main__":
    sys.exit(main())
