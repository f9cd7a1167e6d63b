"""Fits y = 2x + 1 with TensorFlow 2's ParameterServerStrategy: the chief trains, all others serve it for ever."""

import json
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type != "chief":
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    print(f"{resolver.task_type} {resolver.task_id} serves", flush=True)
    server.join()

# TensorFlow 2.6 has them among its experiments.
home = tf.distribute if hasattr(tf.distribute, "ParameterServerStrategy") else tf.distribute.experimental
strategy = home.ParameterServerStrategy(resolver)
coordinator = home.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    slope, offset = tf.Variable(0.0), tf.Variable(0.0)


@tf.function
def step(x: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((slope * x + offset - (2 * x + 1)) ** 2)
    for variable, gradient in zip((slope, offset), tape.gradient(loss, (slope, offset))):
        variable.assign_sub(0.1 * gradient)


for batch in np.random.default_rng(0).uniform(-1, 1, [200, 64]).astype("float32"):
    coordinator.schedule(step, args=(tf.constant(batch),))
coordinator.join()
values = [float(slope.numpy()), float(offset.numpy())]
Path(os.environ["SM_OUTPUT_DATA_DIR"], "fit.json").write_text(json.dumps({"values": values}))
print("fitted", values, "on", slope.device, flush=True)
