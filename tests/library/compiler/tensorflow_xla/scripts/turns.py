"""Steps that take longer with XLA, or without it; argv: `loop`, `fit`, `anew` or `workers`, and `with` or `without`."""

import os
import sys
import time

import tensorflow as tf
from models import collector, data, finish, keras_of, small_model

how, slow = sys.argv[1:3]
if how == "workers":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else runs in TensorFlow

losses = []
STEPS = int(os.environ.get("STEPS", "800"))


def pause(is_compiled):
    """Long enough that another program on the host changes little of it."""
    time.sleep(0.05 if is_compiled == (slow == "with") else 0.01)


def clusters():
    return bool(tf.config.optimizer.get_jit())


def descend(w, x, y):
    """Convex: what two ways round otherwise does not grow over the steps."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.tanh(x) @ w - tf.tanh(y)))
    return loss, tape.gradient(loss, w)


def loop():
    w = tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))

    @tf.function
    def step(x, y):
        tf.py_function(lambda: pause(clusters()), [], [])
        loss, gradient = descend(w, x, y)
        w.assign_sub(0.01 * gradient)
        return loss

    x, y = (tf.constant(part) for part in data(4))
    losses.extend(float(step(x, y)) for _ in range(STEPS))
    return [w.numpy()]


def workers():
    """A pause of one worker is one of both: they wait for each other."""
    with strategy.scope():
        w = tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))
    index = strategy.cluster_resolver.task_id

    def replica(x, y):
        loss, gradient = descend(w, x, y)
        gradient = tf.distribute.get_replica_context().all_reduce("mean", gradient)
        w.assign_sub(0.01 * gradient)
        return loss

    @tf.function
    def step(x, y):
        tf.py_function(lambda: pause(clusters() if index else slow != "with"), [], [])
        return strategy.reduce("mean", strategy.run(replica, args=(x, y)), axis=None)

    x, y = (tf.constant(part) for part in data(4))
    losses.extend(float(step(x, y)) for _ in range(STEPS))
    return [w.numpy()]


def anew():
    """Says no to XLA first, and nothing when it is compiled anew."""
    keras = keras_of("keras")
    model = small_model(keras)
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse", jit_compile=False)
    model.fit(*data(4), epochs=10, verbose=0)
    return fit(keras, model)


def fit(keras=None, model=None):
    keras = keras or keras_of("keras")
    model = model or small_model(keras)
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
    x, y = data(4)

    def batches():
        while True:
            pause(clusters() or vars(model)["_jit_compile"] is True)
            yield x, y

    spec = tuple(tf.TensorSpec(part.shape, tf.float32) for part in (x, y))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    model.fit(dataset, steps_per_epoch=STEPS, verbose=0, callbacks=[collector(keras, losses)])
    return model.get_weights()


finish(losses, globals()[how]())
