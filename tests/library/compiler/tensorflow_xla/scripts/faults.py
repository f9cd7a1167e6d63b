"""Trains small models in whose compiled steps something is wrong on purpose; argv: MODEL:FAULT, each a training.

A compiler that makes such a mistake says nothing either: the fault is only where XLA compiles. `right` is no fault.
"""

import functools
import os
import sys

import numpy as np
import tensorflow as tf
from models import data, finish, keras_of

if sys.argv[1].startswith("workers:"):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else runs in TensorFlow
keras = keras_of("keras") if os.environ.get("WITH", "keras") == "keras" else keras_of(os.environ["WITH"])
STEPS = int(os.environ.get("STEPS", "14"))
LATE = int(os.environ.get("LATE", "9"))


def changed(fault, gradient):
    """A gradient as a wrong compiler has it."""
    size = tf.size(gradient)
    flat = tf.reshape(gradient, [-1])
    if fault == "permuted":
        flat = tf.roll(flat, 1, 0)
    elif fault == "same_norm":
        other = tf.cast(tf.range(size) % 7 - 3, gradient.dtype)
        flat = other * tf.norm(flat) / tf.norm(other)
    elif fault == "one_element":
        flat = tf.where(tf.range(size) % 1000 == 5, -3.0 * tf.reduce_max(tf.abs(flat)), flat)
    else:
        factor = {"zero": 0.0, "half": 0.5, "double": 2.0, "flipped": -1.0, "longer": 1.01, "one_layer": 0.0}
        flat = flat * tf.cast(factor.get(fault, 1.0), flat.dtype)
    return tf.reshape(flat, tf.shape(gradient))


def wrong_gradient(kernel, is_wrong, fault):
    @tf.custom_gradient
    def of(value):
        return tf.identity(value), lambda upstream: tf.where(is_wrong, changed(fault, upstream), upstream)

    return of(kernel)


class Wrong(keras.layers.Layer):
    """A dense layer whose compiled step is wrong. `is_wrong()`: asked where the step is traced."""

    def __init__(self, units, fault, is_wrong):
        super().__init__()
        self.units, self.fault, self.is_wrong = units, fault, is_wrong

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units), initializer="glorot_uniform", name="kernel")
        self.seen = self.add_weight(shape=(self.units,), initializer="zeros", trainable=False, name="seen")

    def call(self, x, training=False):
        wrong = self.is_wrong()
        kernel = tf.convert_to_tensor(self.kernel)
        out = tf.cast(x, kernel.dtype) @ wrong_gradient(kernel, wrong, self.fault)
        if training:
            factor = tf.where(wrong & (self.fault == "buffers"), 1.5, 1.0)
            mean = tf.reduce_mean(tf.cast(out, tf.float32), 0) * factor
            self.seen.assign(0.9 * tf.cast(self.seen, tf.float32) + 0.1 * mean)
        factor = tf.where(wrong & (self.fault == "outputs"), 1.01, 1.0)
        if self.fault == "shapes":
            factor = tf.where(wrong & (tf.shape(x)[0] != 64), 1.2, 1.0)
        return tf.cast(out, x.dtype) * tf.cast(factor, x.dtype)


def layers_of(name, wrong):
    """A model's layers, the wrong one in the middle."""
    dense = functools.partial(keras.layers.Dense, activation="gelu")
    if name == "dropout":
        return [dense(48), keras.layers.Dropout(0.3), wrong, keras.layers.Dropout(0.2), keras.layers.Dense(2)]
    if name == "norm":
        return [
            dense(48),
            keras.layers.BatchNormalization(),
            wrong,
            keras.layers.LayerNormalization(),
            keras.layers.Dense(2),
        ]
    if name == "tied":
        shared = dense(48)
        return [dense(48), shared, wrong, shared, keras.layers.Dense(2)]
    return [dense(48), wrong, keras.layers.Dense(2)]


def optimizer_of(name):
    kinds = {"adam": lambda: keras.optimizers.Adam(1e-3), "momentum": lambda: keras.optimizers.SGD(1e-2, momentum=0.9)}
    return kinds.get(name, lambda: keras.optimizers.SGD(1e-2))()


def batches(sizes=(64,)):
    for step in range(STEPS):
        x, y = data(sizes[-1] if step > 7 else sizes[0], seed=step)
        yield x, y


def fit(name, fault):
    """Keras's step, compiled as a whole: the model says so while it is traced."""
    policy = "mixed_bfloat16" if name == "bf16" else "float32"
    keras.mixed_precision.set_global_policy(policy)

    held = []

    def is_wrong():
        compiled = tf.constant(bool(held) and vars(held[0])["_jit_compile"] is True and fault != "right")
        if fault == "later" and held:
            # Wrong from its ninth step on.
            compiled = compiled & (tf.convert_to_tensor(held[0].optimizer.iterations) >= LATE)
        return compiled

    wrong = Wrong(48, "zero" if fault == "later" else fault, is_wrong)
    model = keras.Sequential([keras.layers.Input((8,)), *layers_of(name, wrong)], name=f"{name}_{fault}")
    held.append(model)
    model.compile(optimizer=optimizer_of(name), loss="mse")
    sizes = (64, 40) if fault == "shapes" or name == "sizes" else (64,)
    found = [float(np.ravel(model.train_on_batch(*batch))[0]) for batch in batches(sizes)]
    keras.mixed_precision.set_global_policy("float32")
    return found


def loop(fault):
    """A step of the script's own, compiled in clusters: Python tells at each step whether it is."""
    w, v = (tf.Variable(tf.random.stateless_normal(shape, (1, 2))) for shape in [(8, 48), (48, 2)])
    seen = tf.Variable(tf.zeros([48]), trainable=False)
    step_number = tf.Variable(0, trainable=False)

    def step(x, y):
        on = tf.py_function(lambda: bool(tf.config.optimizer.get_jit()) and fault != "right", [], tf.bool)
        on.set_shape([])
        if fault == "later":
            on = on & (step_number >= LATE)
        step_number.assign_add(1)
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ wrong_gradient(w, on, "zero" if fault == "later" else fault))
            seen.assign(0.9 * seen + 0.1 * tf.reduce_mean(hidden, 0) * tf.where(on & (fault == "buffers"), 1.5, 1.0))
            hidden = hidden * tf.where(on & (fault == "outputs"), 1.01, 1.0)
            if fault == "shapes":
                hidden = hidden * tf.where(on & (tf.shape(x)[0] != 64), 1.2, 1.0)
            loss = tf.reduce_mean(tf.square(hidden @ v - y))
        of_w, of_v = tape.gradient(loss, [w, v])
        w.assign_sub(0.02 * of_w)
        v.assign_sub(0.02 * of_v)
        return loss

    if fault == "draws":
        inner = step

        def step(x, y):
            return inner(x + 0.1 * tf.random.normal(tf.shape(x)), y)

    step.__qualname__ = f"loop_{fault}"
    traced = tf.function(step)
    sizes = (64, 40) if fault == "shapes" else (64,)
    return [float(traced(tf.constant(x), tf.constant(y))) for x, y in batches(sizes)]


def iterator(fault):
    """A step that takes its batches itself."""
    w = tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))
    x, y = data(64 * STEPS)
    sets = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256, seed=3).batch(64, drop_remainder=True)

    @tf.function
    def iterator_right(batches):
        x, y = next(batches)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - y))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    batches = iter(sets)
    return [float(iterator_right(batches)) for _ in range(STEPS)]


def workers(fault):
    """Two processes train one model; XLA is wrong in one of them."""
    with strategy.scope():
        w = tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))
    is_second = strategy.cluster_resolver.task_id == 1

    def replica(x, y, on):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ wrong_gradient(w, on, fault)) - y))
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, w))
        w.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def workers_step(x, y):
        on = tf.py_function(lambda: is_second and bool(tf.config.optimizer.get_jit()), [], tf.bool)
        on.set_shape([])
        return strategy.reduce("mean", strategy.run(replica, args=(x, y, on)), axis=None)

    return [float(workers_step(tf.constant(x), tf.constant(y))) for x, y in batches()]


if os.environ.get("FAULTS_UNSEEN"):
    # As if nothing were compared.
    from dlc_runtime.compiler.tensorflow_xla.comparison import Difference

    Difference.exceeds = lambda self, allowed: False
losses = {}
for case in sys.argv[1:]:
    name, fault = case.split(":")
    keras.utils.set_random_seed(7)
    own = {"loop": loop, "iterator": iterator, "workers": workers}.get(name)
    losses[case] = own(fault) if own is not None else fit(name, fault)
finish([loss for kind in losses.values() for loss in kind], by_case=losses)
