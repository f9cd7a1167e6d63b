"""Takes the next batches of what a train function reads, so that they can be given to it more than once."""

from __future__ import annotations

import itertools

import tensorflow as tf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

KINDS = (tf.TensorSpec, tf.SparseTensorSpec, tf.RaggedTensorSpec)


class Kept:
    """`again` gives an iterator over the batches each time. `enough`: the data has not ended among them."""

    def __init__(self, batches: list[Any], count: int, iterator: Any, again: Callable[[], Any]) -> None:
        self.enough = len(batches) == count
        self.again = again if batches else lambda: iterator


def take(iterator: Any, count: int) -> Kept | None:
    """None, and nothing is taken, where it cannot be."""
    if not isinstance(iterator, tf.data.Iterator):
        if hasattr(iterator, "element_spec"):  # distributed: each replica has batches of its own
            return None
        batches = list(itertools.islice(iterator, count))
        return Kept(batches, count, iterator, lambda: iter(batches))
    spec = iterator.element_spec
    if not all(isinstance(part, KINDS) for part in tf.nest.flatten(spec)):
        return None
    batches = list(itertools.islice(iterator, count))
    return Kept(batches, count, iterator, lambda: iter(dataset(batches, spec)))


def dataset(batches: list[Any], spec: Any) -> Any:
    """With the shapes that the script's own data set states: else the step would be traced anew."""
    parts = [tf.data.Dataset.from_tensors(batch) for batch in batches]
    if any(part.element_spec != spec for part in parts):
        parts = [part.map(lambda *batch: stated(batch, spec)) for part in parts]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.concatenate(part)
    return untuned(whole)


def untuned(data: Any) -> Any:
    """Tuning takes a thread, for which the iterator's end waits: up to a second, and there is nothing to tune."""
    options = tf.data.Options()
    tuning = getattr(options, "autotune", None)  # TensorFlow 2.6 has none
    if tuning is not None:
        tuning.enabled = False
    return data.with_options(options)


def stated(batch: Any, spec: Any) -> Any:
    if not isinstance(spec, tuple):  # a data set of single tensors, or of dictionaries
        batch = batch[0]
    parts = zip(tf.nest.flatten(batch, expand_composites=True), tf.nest.flatten(spec, expand_composites=True))
    flat = [tf.compat.v1.placeholder_with_default(value, part.shape) for value, part in parts]
    return tf.nest.pack_sequence_as(spec, flat, expand_composites=True)
