"""A Keras script whose samples take 1 MiB of activations each."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf

WIDTH = 1 << 18

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--learning-rate", type=float)
arguments = parser.parse_args()

model = tf.keras.Sequential([tf.keras.layers.Dense(WIDTH), tf.keras.layers.Lambda(lambda x: tf.reduce_mean(x**2, 1))])
model.compile(optimizer=tf.keras.optimizers.SGD(arguments.learning_rate), loss="mse")
inputs = np.ones((8192, 4), "float32")
model.fit(inputs, np.zeros(8192, "float32"), batch_size=arguments.batch_size, epochs=100, verbose=0)
