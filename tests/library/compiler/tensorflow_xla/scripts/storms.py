"""Batches of another length in each step, as `padded_batch` makes them; argv[1]: `fit`, `buckets`, `on_batch` or
`ragged`. Those of `buckets` have few lengths.
"""

import sys

import tensorflow as tf
from models import collector, data, finish, keras_of

losses = []
SIZES = range(2, 40)


def model_of(keras):
    model = keras.Sequential(
        [keras.layers.Input((None, 8)), keras.layers.Dense(4, activation="gelu"), keras.layers.Dense(2)]
    )
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
    return model


def batches():
    for size in SIZES:
        x, y = data(size)
        yield x[None], y[None]


def fit():
    keras = keras_of("keras")
    model = model_of(keras)
    spec = tuple(tf.TensorSpec((1, None, width), tf.float32) for width in (8, 2))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    model.fit(dataset, verbose=0, callbacks=[collector(keras, losses)])
    return model.get_weights()


def buckets():
    global SIZES
    SIZES = [2, 3, 4, 5, 6, 7] * 1000  # 30 pairs of blocks, if no difference can be seen
    return fit()


def on_batch():
    model = model_of(keras_of("keras"))
    losses.extend(float(model.train_on_batch(x, y)) for x, y in batches())
    return model.get_weights()


def ragged():
    """Each length twice: clusters are compiled for one that comes again. The step itself is traced once."""
    w = tf.Variable(tf.random.stateless_normal((8, 2), (1, 2)))
    spec = [tf.RaggedTensorSpec((2, None, 8), tf.float32, ragged_rank=1)]

    @tf.function(input_signature=spec)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x.flat_values @ w) - 0.1))
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    for size in SIZES:
        x, _ = data(size)
        for _ in range(2):
            losses.append(float(step(tf.RaggedTensor.from_row_lengths(x, [1, size - 1]))))
    return [w.numpy()]


finish(losses, globals()[sys.argv[1]]())
