"""Trains one small model after the other, each in another way; argv: their names. `losses` has them by name."""

import functools
import sys

import numpy as np
import tensorflow as tf
from models import collector, data, finish, keras_of

keras = keras_of("keras")
losses = {}


def fit(name, model, size=48, batch=4, **stated):
    seen = losses[name] = []
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse", **stated)
    x, y = data(size)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, callbacks=[collector(keras, seen)])


def named(name, *layers):
    return keras.Sequential([keras.layers.Input((8,)), *layers, keras.layers.Dense(2)], name=name)


def loop(name, step, batches):
    seen = losses[name] = []
    for batch in batches:
        seen.append(float(step(*batch)))


def weights():
    return tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))


def batches(sizes, wrap=tf.constant):
    for size in sizes:
        x, y = data(size)
        yield wrap(x), wrap(y)


def descend(w, x, y, rate=0.1):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - y))
    w.assign_sub(rate * tape.gradient(loss, w))
    return loss


def partial():
    """The last batch is smaller: XLA compiles it anew, without a trace."""
    fit("partial", named("partial"), size=4 * 12 + 2)


def on_batch():
    """A loop of the script's own around Keras's step."""
    model, seen = named("on_batch"), losses.setdefault("on_batch", [])
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
    for size in [4] * 7 + [5, 6, 7]:
        seen.append(float(model.train_on_batch(*data(size))))


def false():
    fit("false", named("false"), jit_compile=False)


def own():
    fit("own", named("own"), jit_compile=True)


def eagerly():
    fit("eagerly", named("eagerly"), run_eagerly=True)


def several():
    fit("several", named("several"), size=4 * 24, steps_per_execution=2)


class Lacks(keras.layers.Layer):
    """Has an operation that XLA does not know."""

    def call(self, x):
        length = tf.strings.length(tf.strings.as_string(x[:, :1]))
        return x + 0.0 * tf.cast(length, x.dtype)


def lacks():
    fit("lacks", named("lacks", Lacks()))


class Asserts(keras.layers.Layer):
    def call(self, x):
        tf.debugging.assert_less(tf.reduce_max(tf.abs(x)), 100.0)
        return x


def asserts():
    """The script's own assertion refuses two batches; TensorFlow may have changed weights by then."""
    model, seen = named("asserts", Asserts()), losses.setdefault("asserts", [])
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
    for number in range(12):
        x, y = data(4)
        try:
            seen.append(float(model.train_on_batch(x * 1000.0 if number in (5, 8) else x, y)))
        except tf.errors.InvalidArgumentError:
            seen.append(-1.0)


def of_graph():
    """Asks for its gradients without a tape."""
    w = weights()

    @tf.function
    def one_step(x, y):
        read = w.read_value()
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ read) - y))
        w.assign_sub(0.1 * tf.gradients(loss, read)[0])
        return loss

    loop("of_graph", one_step, batches([4] * 12))


class Noise(keras.layers.Layer):
    """Uniform and normal random numbers, other ones for each batch."""

    def call(self, x):
        seed = tf.stack([tf.cast(tf.abs(1000.0 * x[0, 0]), tf.int32), 7])
        kept = tf.random.stateless_uniform(tf.shape(x), seed) > 0.3
        return tf.where(kept, x, 0.0) + 0.1 * tf.random.stateless_normal(tf.shape(x), seed)


def noise():
    """Layers of Keras 3 draw the same way; those of older ones draw from generators with a state of their own."""
    dropout = [keras.layers.Dropout(0.3, seed=3)] if keras.__version__ > "3" else []
    fit("noise", named("noise", Noise(), *dropout))


@functools.cache
def two_replicas():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def mirrored():
    with two_replicas().scope():
        model = named("mirrored")
        fit("mirrored", model)


def mirrored_loop():
    strategy = two_replicas()
    with strategy.scope():
        w = weights()

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - y))
        gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        w.assign_sub(0.05 * gradient)
        return loss

    @tf.function
    def step(x, y):
        per_replica = strategy.run(replica, args=(x, y))
        return strategy.reduce("mean", per_replica, axis=None)

    loop("mirrored_loop", step, batches([4] * 12))


def shapes():
    w = weights()

    @tf.function
    def shapes_step(x, y):
        return descend(w, x, y)

    loop("shapes", shapes_step, batches([4] * 7 + [5, 6, 7, 8]))


def numbers():
    w = weights()

    @tf.function
    def numbers_step(x, y, rate):
        return descend(w, x, y, rate)

    loop("numbers", numbers_step, [(x, y, 0.1 / (at // 6 + 1)) for at, (x, y) in enumerate(batches([4] * 12))])


def without_function():
    w = weights()
    loop("without_function", lambda x, y: descend(w, x, y), batches([4] * 6))


def own_function():
    w = weights()

    @tf.function(jit_compile=True)
    def own_step(x, y):
        return descend(w, x, y)

    loop("own_function", own_step, batches([4] * 6))


def false_function():
    """In turns with a step that is compiled."""
    w, other = weights(), weights()

    @tf.function(jit_compile=False)
    def false_step(x, y):
        return descend(w, tf.tanh(x) + 0.5, y)

    @tf.function
    def other_step(x, y):
        return descend(other, x, y)

    loop("false_function", lambda x, y: other_step(x, y) + false_step(x, y), batches([4] * 12))


def gan():
    one, other = weights(), weights()

    @tf.function
    def one_step(x, y):
        return descend(one, x, y)

    @tf.function
    def other_step(x, y):
        return descend(other, x, y + 1.0)

    loop("gan", lambda x, y: one_step(x, y) + other_step(x, y), batches([4] * 9))


def random():
    w = weights()

    @tf.function
    def random_step(x, y):
        return descend(w, x, y + 0.0 * tf.random.uniform(tf.shape(y), seed=1))

    loop("random", random_step, batches([4] * 8))


def noise_loop():
    """Numbers that XLA would draw otherwise if a cluster had them."""
    w, generator = weights(), tf.random.Generator.from_seed(5, alg="philox")

    @tf.function
    def noise_loop_step(x, y):
        seed = tf.stack([tf.cast(1000.0 * x[0, 0], tf.int32), 7])
        kept = tf.cast(tf.random.stateless_uniform(tf.shape(x), seed) > 0.3, x.dtype)
        noise = tf.random.stateless_truncated_normal(tf.shape(y), seed) + generator.normal(tf.shape(y))
        return descend(w, x * kept, y + 0.1 * noise)

    loop("noise_loop", noise_loop_step, batches([4] * 12))


class Draws(keras.layers.Layer):
    """Draws with a state of TensorFlow's own, which a step that is compiled as a whole does not have."""

    def call(self, x):
        return x + 0.1 * tf.random.uniform(tf.shape(x), seed=1)


def draws():
    fit("draws", named("draws", Draws()))


def evaluates():
    """Evaluation between epochs is left as the script has it."""
    model, seen = named("evaluates"), losses.setdefault("evaluates", [])
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
    x, y = data(32)
    more = {"validation_data": data(12), "validation_batch_size": 5}
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[collector(keras, seen)], **more)
    seen.append(float(model.evaluate(x, y, verbose=0)))
    seen.append(float(np.sum(model.predict(x, verbose=0))))


cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
for kind in sys.argv[1:]:
    globals()[kind]()
finish([loss for kind in losses.values() for loss in kind], by_kind=losses)
