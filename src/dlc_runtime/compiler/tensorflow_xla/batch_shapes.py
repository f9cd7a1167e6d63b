"""Shapes of what steps are called with: they tell when XLA compiles again, where its programs cannot be seen."""

from __future__ import annotations

import functools
import sys

from dlc_runtime.compiler.source_locations import is_user_code
from dlc_runtime.compiler.tensorflow_xla.compiled_programs import describe_difference
from dlc_runtime.compiler.tensorflow_xla.functions import LEFT, TrainedFunction
from dlc_runtime.compiler.tensorflow_xla.turns import WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Shapes = tuple[str, ...]

ITERATORS = "tensorflow.python.data.ops.iterator_ops"


class MetShapes:
    """The shapes of the steps of a way. `waits`: XLA compiles for others than the first when they come again."""

    def __init__(self, waits: bool) -> None:
        self._waits = waits
        # Steps until XLA has compiled.
        self._left: dict[Shapes, int] = {}
        self._latest: Shapes | None = None

    def add(self, shapes: Shapes) -> str | None:
        """Return what differs from the latest shapes that XLA compiled for, "" for the first, None if it need not."""
        left = self._left.setdefault(shapes, 2 if self._left and self._waits else 1)
        self._left[shapes] = left - 1
        if left != 1:
            return None
        before, self._latest = self._latest, shapes
        return "" if before is None else describe_difference(before, shapes)

    def add_call(self, given: Any, batches: list[Shapes]) -> str | None:
        """Add what a step was called with, and the batches that it took itself."""
        own = read_shapes(given)
        return max((new for batch in batches or [()] if (new := self.add(own + batch)) is not None), default=None)


def read_shapes(values: Any) -> Shapes:
    """Return the shapes of the tensors in nested values, and in RaggedTensors."""
    parts = sys.modules["tensorflow"].nest.flatten(values, expand_composites=True)
    # Layers have a dtype too.
    parts = [part for part in parts if hasattr(part, "dtype") and hasattr(part, "shape")]
    return tuple(shape_text(part.dtype, part.shape) for part in parts if getattr(part.shape, "rank", 0) is not None)


def shape_text(dtype: Any, sizes: Any) -> str:
    return f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, sizes))}]"


def watch_batches(current: Callable[[], TrainedFunction | None], noted: Callable[[Shapes], None] | None) -> None:
    """Note of a function that is being traced that it takes batches whose shapes can change.

    `noted` is called with the shapes of each of these, if XLA's programs do not tell them.
    """
    iterator = getattr(sys.modules.get(ITERATORS), "OwnedIterator", None)
    original = getattr(iterator, "_next_internal", None)
    if original is None:
        return

    @functools.wraps(original)
    def take_next(self: Any) -> Any:
        batch = original(self)
        function = current()
        if function is not None and not sys.modules["tensorflow"].executing_eagerly() and not has_fixed_shapes(batch):
            function.takes_unseen = True
            if noted is not None and is_watched(function):
                note_in_graph(batch, noted)
        return batch

    iterator._next_internal = take_next  # type: ignore[union-attr]


def has_fixed_shapes(batch: Any) -> bool:
    """Tell whether the shapes of a batch, or of its description, are known before it comes."""
    parts = sys.modules["tensorflow"].nest.flatten(batch, expand_composites=True)
    return all(part.shape.is_fully_defined() for part in parts if hasattr(part, "shape"))


def read_arguments(given: Any) -> Shapes | None:
    """Return the shapes of a call's arguments; None if one is an iterator over batches of other shapes."""
    iterators = [part for part in sys.modules["tensorflow"].nest.flatten(given) if hasattr(part, "element_spec")]
    return read_shapes(given) if all(has_fixed_shapes(part.element_spec) for part in iterators) else None


def is_watched(function: TrainedFunction) -> bool:
    """Tell whether what is traced is a step for XLA: noting takes 0.1 ms."""
    if function.phase == LEFT or (WHOLE in function.ways and function.way != WHOLE):
        return False
    # Of the script's own: it may ask for a gradient.
    return function.training or is_user_code(function.file)


def note_in_graph(batch: Any, noted: Callable[[Shapes], None]) -> None:
    """Add a call to the graph; it waits for it."""
    tf: Any = sys.modules["tensorflow"]
    parts = [part for part in tf.nest.flatten(batch, expand_composites=True) if not part.shape.is_fully_defined()]
    if not parts:
        return
    kinds = [part.dtype for part in parts]

    def tell(*sizes: Any) -> int:
        noted(tuple(map(shape_text, kinds, sizes)))
        return 0

    with tf.device("CPU:0"):
        tf.numpy_function(tell, [tf.shape(part, tf.int64) for part in parts], tf.int64)
