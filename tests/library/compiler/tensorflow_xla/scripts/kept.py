"""Takes the batches of a data set of sparse, ragged and plain tensors twice; prints both as JSON.

And whether a single batch of it keeps the shapes that the data set states.
"""

from __future__ import annotations

import json

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla import keras_fit

if __name__ == "__main__":
    sparse = tf.sparse.from_dense([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0], []])
    data = tf.data.Dataset.from_tensor_slices((sparse, ragged, tf.constant([1.0, 2.0, 3.0]))).batch(2)
    kept = keras_batches.take_batches(iter(data), 2)
    taken = [kept.again() for _ in range(2)] if kept is not None else []
    plain = [
        [
            [tf.sparse.to_dense(one).numpy().tolist(), two.to_list(), three.numpy().tolist()]
            for one, two, three in batches
        ]
        for batches in taken
    ]
    one_batch = keras_batches.take_batches(iter(data), 1)
    is_stated = one_batch is not None and one_batch.again().element_spec == data.element_spec
    print(json.dumps([plain, is_stated]))
