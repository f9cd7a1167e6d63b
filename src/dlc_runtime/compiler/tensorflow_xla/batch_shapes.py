"""Shapes of what steps are called with: they tell when XLA compiles again, where its programs cannot be seen."""

from __future__ import annotations

import functools
import sys

from dlc_runtime.compiler.source_locations import is_user_code
from dlc_runtime.compiler.tensorflow_xla.compiled_programs import describe_difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Shapes = tuple[str, ...]

ITERATORS = "tensorflow.python.data.ops.iterator_ops"


class MetShapes:
    """The shapes that steps of one way had. `waits`: XLA compiles for others than the first when they come again."""

    def __init__(self, waits: bool) -> None:
        self._waits = waits
        # Steps after which XLA has compiled for them.
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
    """Return the shapes of all tensors in nested values, also of those that a RaggedTensor is made of."""
    parts = sys.modules["tensorflow"].nest.flatten(values, expand_composites=True)
    return tuple(shape_text(part.dtype, part.shape) for part in parts if hasattr(part, "dtype"))


def shape_text(dtype: Any, sizes: Any) -> str:
    return f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, sizes))}]"


def watch_batches(current: Callable[[], Any], noted: Callable[[Shapes], None]) -> None:
    """Have `noted` called with the shapes of each batch that a function takes from a data set by itself.

    `current` returns the TrainedFunction that is being traced: of Keras's own only one that trains is watched. A batch
    whose shape cannot change is not noted: another one is traced anew.
    """
    iterator = getattr(sys.modules.get(ITERATORS), "OwnedIterator", None)
    original = getattr(iterator, "_next_internal", None)
    if original is None:
        return

    @functools.wraps(original)
    def take_next(self: Any) -> Any:
        batch = original(self)
        function = current()
        wanted = function is not None and (function.training or is_user_code(function.file))
        if wanted and not sys.modules["tensorflow"].executing_eagerly():
            note_in_graph(batch, noted)
        return batch

    iterator._next_internal = take_next  # type: ignore[union-attr]


def note_in_graph(batch: Any, noted: Callable[[Shapes], None]) -> None:
    """Add a call to the graph being traced, which waits for it before it ends."""
    tensorflow: Any = sys.modules["tensorflow"]
    parts = tensorflow.nest.flatten(batch, expand_composites=True)
    open_parts = [part for part in parts if not part.shape.is_fully_defined()]
    if not open_parts:
        return
    kinds = [part.dtype for part in open_parts]

    def tell(*sizes: Any) -> int:
        noted(tuple(map(shape_text, kinds, sizes)))
        return 0

    with tensorflow.device("CPU:0"):
        sizes = [tensorflow.shape(part, tensorflow.int64) for part in open_parts]
        tensorflow.numpy_function(tell, sizes, tensorflow.int64)
