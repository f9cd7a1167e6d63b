"""An ordinary Keras script: each sample costs a known amount of CPU time, and `fit` runs the loop."""

import time

import numpy as np
import tensorflow as tf


def spin(value):
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
    return np.ones(8, np.float32), np.float32(value)


def sample(number):
    x, y = tf.numpy_function(spin, [number], (tf.float32, tf.float32))
    return tf.ensure_shape(x, [8]), tf.ensure_shape(y, [])


dataset = tf.data.Dataset.range(160).map(sample, num_parallel_calls=2).batch(4).prefetch(2)
validation = tf.data.Dataset.from_tensor_slices((np.ones((40, 8), np.float32), np.ones(40, np.float32))).batch(4)
model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(dataset, validation_data=validation, epochs=2, verbose=0)
print(f"trained {len(history.history['loss'])} epochs")
