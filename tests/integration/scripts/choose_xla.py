"""For tests: a tf.function whose gradients Horovod averages, and that takes longer with XLA on all ranks but the first.

argv: how many steps. What each rank saw is in metrics-rank<N>.json.
"""

import argparse
import json
import os
import time
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

PAUSE = 0.02  # seconds of a step without XLA: a block of 0.2 s has at most ten steps

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
steps = parser.parse_args().steps
hvd.init()
w = tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))
hvd.broadcast_variables([w], root_rank=0)
x = tf.random.stateless_normal((16, 8), (3, hvd.rank()))


def pause():
    time.sleep(PAUSE * 3 if hvd.rank() and tf.config.optimizer.get_jit() else PAUSE)


@tf.function
def step():
    tf.py_function(pause, [], [])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.tanh(x) @ w - tf.tanh(x[:, :2])))
    w.assign_sub(0.01 * hvd.allreduce(tape.gradient(loss, w)))
    return loss


losses = [float(step()) for _ in range(steps)]
path = Path(os.environ["SM_OUTPUT_DATA_DIR"], f"metrics-rank{hvd.rank()}.json")
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text(json.dumps({"rank": hvd.rank(), "losses": losses, "weights": w.numpy().flatten().tolist()}))
