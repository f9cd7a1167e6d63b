"""Two workers train a number with MultiWorkerMirroredStrategy; an evaluator, in no cluster, reads what they saved."""

import json
import os
import time
from pathlib import Path

import tensorflow as tf

STEPS = 3
checkpoints = Path(os.environ["CHECKPOINTS"])
task = json.loads(os.environ["TF_CONFIG"])["task"]


def train() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        number = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def step() -> None:
        strategy.run(lambda: number.assign_add(1.0))  # by each of the two workers

    for _ in range(STEPS):
        step()
    if task["index"] == 0:
        tf.train.Checkpoint(number=tf.Variable(number.numpy())).save(str(checkpoints / "number"))


def evaluate() -> None:
    while not (found := tf.train.latest_checkpoint(str(checkpoints))):
        time.sleep(0.1)
    number = tf.Variable(0.0)
    tf.train.Checkpoint(number=number).restore(found).expect_partial()
    print("evaluated", number.numpy(), flush=True)


evaluate() if task["type"] == "evaluator" else train()
