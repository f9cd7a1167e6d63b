"""What a step of TensorFlow's reads and writes: variables and iterators. They are read, and put back."""

from __future__ import annotations

from contextlib import suppress

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla.comparison import NotComparableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# An iterator whose place depends on what is outside of TensorFlow, such as a Python generator, is refused.
FAILS = 2
KEEPS_NO_PLACE = "a step takes its batches from a data set that cannot be put back ({})"


class StepState:
    """The variables and iterators that the graphs of a function reach, and those in its arguments."""

    def __init__(self, graphs: Sequence[Any], given: Any) -> None:
        self.names: list[str] = []
        self.trained_shapes: set[tuple[int, ...]] = set()
        self._variables: list[tuple[Any, Any]] = []  # handle and dtype
        self._iterators: list[Any] = []
        known = [variable for graph in graphs for variable in known_variables(graph)]
        named = {id(variable.handle): variable.name for variable in known}
        self.trained_shapes.update(tuple(variable.shape) for variable in known if variable.trainable)
        for handle in {id(handle): handle for handle in find_handles(graphs, given)}.values():
            dtype = variable_dtype(handle)
            if dtype is not None:
                self._variables.append((handle, dtype))
                self.names.append(named.get(id(handle), "a variable"))
            elif is_iterator(handle):
                self._iterators.append(handle)

    def places(self) -> list[Any]:
        """Return the places of iterators, which `put_back` takes."""
        try:
            return [
                tf.raw_ops.SerializeIterator(resource_handle=handle, external_state_policy=FAILS)
                for handle in self._iterators
            ]
        except Exception as fault:
            raise NotComparableError(KEEPS_NO_PLACE.format(str(fault).partition("[Op")[0].strip())) from None

    def read(self) -> list[Any]:
        """Return the values; TensorFlow copies a variable when it writes it while its value is held."""
        return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype) for handle, dtype in self._variables]

    def write(self, values: Sequence[Any]) -> None:
        for (handle, dtype), value in zip(self._variables, values):
            with tf.device(handle.device):
                tf.raw_ops.AssignVariableOp(resource=handle, value=tf.convert_to_tensor(value, dtype))

    def put_back(self, places: Sequence[Any]) -> None:
        for handle, place in zip(self._iterators, places):
            tf.raw_ops.DeserializeIterator(resource_handle=handle, serialized=place)


def known_variables(graph: Any) -> list[Any]:
    with suppress(Exception):  # a version that keeps no list
        return [variable for variable in graph.variables if hasattr(variable, "handle")]
    return []


def find_handles(graphs: Sequence[Any], given: Any) -> list[Any]:
    captured = [tensor for graph in graphs for tensor in graph.external_captures]
    flat = tf.nest.flatten(given, expand_composites=True)
    arguments = [getattr(part, "handle", part) for part in flat]
    return [part for part in captured + arguments if getattr(part, "dtype", None) == tf.resource]


def variable_dtype(handle: Any) -> Any:
    """Return a variable's dtype, None for another resource."""
    kept = getattr(handle, "_handle_data", None)
    shapes = getattr(kept, "shape_and_type", ())
    if not shapes:
        return None
    try:
        return tf.dtypes.as_dtype(shapes[0].dtype) if tf.raw_ops.VarIsInitializedOp(resource=handle) else None
    except tf.errors.OpError:
        return None


def is_iterator(handle: Any) -> bool:
    try:
        tf.raw_ops.SerializeIterator(resource_handle=handle, external_state_policy=FAILS)
    except tf.errors.InvalidArgumentError:
        return False
    except tf.errors.OpError:
        return True
    return True
