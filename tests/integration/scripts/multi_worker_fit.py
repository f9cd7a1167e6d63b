"""Trains a line with MultiWorkerMirroredStrategy; with `--last N` task N stays some seconds longer than the others."""

import argparse
import json
import os
import time

import tensorflow as tf

STEPS = 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--last", type=int, default=-1)
    last = parser.parse_known_args()[0].last
    task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tf.Variable(0.0)

    @tf.function
    def step() -> tf.Tensor:
        def replica() -> tf.Tensor:
            loss = (weight - 3.0) ** 2
            gradient = 2 * (weight - 3.0)
            context = tf.distribute.get_replica_context()
            weight.assign_sub(0.2 * context.all_reduce("MEAN", gradient))
            return loss

        return strategy.reduce("MEAN", strategy.run(replica), axis=None)

    for _ in range(STEPS):
        loss = step()
    print(f"task {task} of {strategy.num_replicas_in_sync} has trained, loss {float(loss):.6f}", flush=True)
    if task == last:
        time.sleep(5)


if __name__ == "__main__":
    main()
