"""An ordinary TensorFlow script with a loop of its own: each sample costs a known amount of CPU time."""

import time

import numpy as np
import tensorflow as tf


def spin(value):
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
    return np.float32(value)


# Nothing is made ahead, as one of TensorFlow's own optimizations would: the loop waits for each sample, and none holds
# Python's lock while the loop computes.
options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
samples = tf.data.Dataset.range(160).map(lambda x: tf.numpy_function(spin, [x], tf.float32))
dataset = samples.batch(4).with_options(options)
weight = tf.Variable(1.0)
for _ in range(2):
    for batch in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch * weight)
        weight.assign_sub(1e-6 * tape.gradient(loss, weight))
print(f"trained to {float(weight):.3f}")
