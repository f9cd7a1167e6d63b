"""Takes batches out of the iterator that Keras hands its step, and gives them to steps: once, or in both ways."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla.batch_shapes import has_fixed_shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

KINDS = (tf.TensorSpec, tf.SparseTensorSpec, tf.RaggedTensorSpec)


class Given:
    """An iterator over batches, without an end: a step is traced more than once."""

    def __init__(self, batches: Any) -> None:
        self._batches = itertools.cycle(batches)

    def __iter__(self) -> Given:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    get_next = __next__


class Feed:
    """Batches of one kind of iterator. `spec`: what it states of them, None of a Python iterator.

    `count`: batches of a call. `call(function, iterator, whole)` calls a train function. Data sets are made
    within `apart`.
    """

    def __init__(
        self, spec: Any, count: int, call: Callable[[Any, Any, bool], Any], apart: Callable[[], Any] = nullcontext
    ) -> None:
        self.spec, self._count, self._call, self._apart = spec, count, call, apart
        # Each replica has batches of its own.
        self._is_distributed = False
        self._is_fixed = spec is not None and has_fixed_shapes(spec)
        self._made: dict[tuple[int, int], Any] = {}

    def can_give(self, iterator: Any, function: Any) -> bool:
        """Tell whether batches can be given to a step more than once."""
        if self.spec is None:
            return True
        is_data = isinstance(iterator, tf.data.Iterator)
        self._is_distributed = not is_data
        if is_data and not all(isinstance(part, KINDS) for part in tf.nest.flatten(self.spec)):
            return False
        # Keras 2 has a loop over several in its graph, which takes them from the iterator.
        return (is_data and self._is_fixed) or self._count == 1 or not hasattr(function, "python_function")

    def take(self, iterator: Any) -> list[Any]:
        batches = list(itertools.islice(iterator, self._count))
        if not batches:
            raise StopIteration
        return batches

    def give_plain(self, function: Any, batches: list[Any]) -> Any:
        """Give batches to the function without XLA, which was traced for the script's own iterator."""
        if self._is_distributed:
            return self.give(function, batches, False)
        return self._give_iterator(function, batches, False)

    def give(self, function: Any, batches: list[Any], whole: bool) -> Any:
        if self.spec is None or (self._is_fixed and not self._is_distributed):
            return self._give_iterator(function, batches, whole)
        key = id(function), len(batches)
        if key not in self._made:
            self._made[key] = self._make(function, len(batches))
        return self._call(lambda _: self._made[key](*batches), None, whole)

    def _give_iterator(self, function: Any, batches: list[Any], whole: bool) -> Any:
        with self._apart():
            iterator = iter(batches if self.spec is None else make_dataset(batches, self.spec))
        return self._call(function, iterator, whole)

    def _make(self, function: Any, count: int) -> Any:
        """Make a step that takes its batches as arguments: an iterator over them would take milliseconds."""

        def step(*batches: Any) -> Any:
            return function(Given(batches))

        return tf.function(step, autograph=False, input_signature=[self.spec] * count)


def make_dataset(batches: list[Any], spec: Any) -> Any:
    """Keep the shapes that the script's own data set states: else the step would be traced anew."""
    parts = [tf.data.Dataset.from_tensors(batch) for batch in batches]
    if any(part.element_spec != spec for part in parts):
        parts = [part.map(lambda *batch: with_shapes(batch, spec)) for part in parts]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.concatenate(part)
    return without_tuning(whole)


def without_tuning(data: Any) -> Any:
    """Switch tuning off: it takes a thread, for which the iterator's end waits up to a second."""
    options = tf.data.Options()
    tuning = getattr(options, "autotune", None)  # TensorFlow 2.6 has none
    if tuning is not None:
        tuning.enabled = False
    return data.with_options(options)


def with_shapes(batch: Any, spec: Any) -> Any:
    # A data set of single tensors, or of dictionaries.
    if not isinstance(spec, tuple):
        batch = batch[0]
    parts = zip(tf.nest.flatten(batch, expand_composites=True), tf.nest.flatten(spec, expand_composites=True))
    flat = [tf.compat.v1.placeholder_with_default(value, part.shape) for value, part in parts]
    return tf.nest.pack_sequence_as(spec, flat, expand_composites=True)
