"""Batches of another length in each step, as `padded_batch` makes them."""

import tensorflow as tf
from models import collector, data, finish, keras_of

losses = []
SIZES = range(2, 40)


def fit():
    keras = keras_of("keras")
    model = keras.Sequential(
        [keras.layers.Input((None, 8)), keras.layers.Dense(4, activation="gelu"), keras.layers.Dense(2)]
    )
    model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")

    def batches():
        for size in SIZES:
            x, y = data(size)
            yield x[None], y[None]

    spec = tuple(tf.TensorSpec((1, None, width), tf.float32) for width in (8, 2))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    model.fit(dataset, verbose=0, callbacks=[collector(keras, losses)])
    return model.get_weights()


finish(losses, fit())
