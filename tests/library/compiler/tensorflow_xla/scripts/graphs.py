"""A script of TensorFlow 1: a graph and a session."""

import numpy as np
import tensorflow.compat.v1 as tf
from models import data, finish

tf.disable_v2_behavior()
x, y = (tf.placeholder(tf.float32, (4, size)) for size in (8, 2))
w = tf.get_variable("w", initializer=np.full((8, 2), 0.1, "float32"))
loss = tf.reduce_mean(tf.square(tf.tanh(tf.tanh(x @ w) + 0.1) - y))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
inputs, targets = data(4 * 12)
losses = []
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for at in range(12):
        part = slice(4 * at, 4 * at + 4)
        losses.append(float(session.run([loss, train], {x: inputs[part], y: targets[part]})[0]))
    finish(losses, [session.run(w)])
