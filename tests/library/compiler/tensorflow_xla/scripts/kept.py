"""Takes the batches of a data set of sparse, ragged and plain tensors twice; prints both as JSON.

And whether a single batch of it keeps the shapes that the data set states.
"""

from __future__ import annotations

import json
from typing import Any

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla.keras_batches import Feed, make_dataset


def seen(iterator: Any) -> list[Any]:
    return [
        [tf.sparse.to_dense(one).numpy().tolist(), two.to_list(), three.numpy().tolist()]
        for one, two, three in iterator
    ]


if __name__ == "__main__":
    sparse = tf.sparse.from_dense([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0], []])
    data = tf.data.Dataset.from_tensor_slices((sparse, ragged, tf.constant([1.0, 2.0, 3.0]))).batch(2)
    feed = Feed(data.element_spec, 2, lambda function, iterator, _whole: function(iterator))
    batches = feed.take(iter(data)) if feed.can_give(iter(data), seen) else []
    plain = [feed.give_plain(seen, batches) for _ in range(2)]
    one_batch = iter(make_dataset(batches[:1], data.element_spec))
    print(json.dumps([plain, one_batch.element_spec == data.element_spec]))
