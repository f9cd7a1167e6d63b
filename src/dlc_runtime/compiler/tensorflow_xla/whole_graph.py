"""Makes the start of functions compiled as a whole short: equal operations share one program, names repeat.

TensorFlow 2.21 builds a compiler for each of some operations, 3 ms each and two for each variable under Adam, before it
asks the cache. Only a function's is kept. A plain call would be taken apart again, so it is a StatelessCase of one
branch; XLA puts the branch in its place before it optimizes. Reads TensorFlow's private parts.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla import tf_internals
from dlc_runtime.compiler.tensorflow_xla.tf_internals import random_numbers_as_without_xla

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FUNCTIONS, MAKE = "tensorflow.python.eager.polymorphic_function.atomic_function", "from_func_graph"
TAPES = "tensorflow.python.eager.record"
SLOW = (
    "BiasAddGrad", "Exp", "Expm1", "FusedBatchNormGradV3", "FusedBatchNormV3", "Log1p", "LogSoftmax", "Relu", "Relu6",
    "ReluGrad", "Rsqrt", "Sigmoid", "Softmax", "Sqrt", "Tanh",
)  # fmt: skip
# Whose values XLA knows before it runs.
KNOWN = ("Const", "Rank", "Shape", "ShapeN", "Size")
# TensorFlow drops a function that nobody holds.
_branches: dict[str, Any] = {}


@contextmanager
def shared_operations() -> Iterator[None]:
    """Share operations in functions that are made meanwhile and that XLA compiles as a whole."""
    module: Any = sys.modules.get(FUNCTIONS)
    tapes: Any = sys.modules.get(TAPES)
    make = getattr(module, MAKE, None)
    # On a GPU it is unproven.
    if make is None or tapes is None or tf_internals.list_gpus():
        yield
        return

    def share_and_make(name: Any, graph: Any, attributes: Any, *others: Any, **named: Any) -> Any:
        gone: set[str] = set()
        if "_XlaMustCompile" in (attributes or ()) and not tapes.could_possibly_record():
            # A tape would ask for the gradient of the calls, which are no steps of the script's.
            # The graph computes the same at each moment.
            with suppress(Exception):
                share_alike(graph, gone)
        left = [operation for operation in graph.get_operations() if operation.name not in gone]
        # TensorFlow hands XLA what is unused too.
        graph.get_operations = lambda: left
        try:
            return make(name, graph, attributes, *others, **named)
        finally:
            del graph.get_operations

    setattr(module, MAKE, share_and_make)
    try:
        yield
    finally:
        setattr(module, MAKE, make)


def share_alike(graph: Any, gone: set[str]) -> None:
    """Put calls in the place of operations that are alike; `gone` takes the names of these."""
    alike: dict[str, list[Any]] = {}
    results = {id(result) for result in graph.outputs}
    for operation in graph.get_operations():
        if operation.type in SLOW and is_free(operation, results):
            alike.setdefault(operation_key(operation), []).append(operation)
    with graph.as_default(), tf.control_dependencies(None):
        first = tf.constant(0)
        for key, operations in alike.items():
            for operation in operations if len(operations) > 1 else ():
                replace_by_call(operation, key, first)
                gone.add(operation.name)


def is_free(operation: Any, results: set[int]) -> bool:
    """Tell whether only its values are used, and XLA need not know them beforehand, as it must a shape's."""
    values = operation.outputs
    if operation.control_inputs or operation._control_outputs or not results.isdisjoint(map(id, values)):
        return False
    return values[0].shape.rank != 0 or reads_data(operation)


def reads_data(operation: Any) -> bool:
    left, seen = [operation], {operation.name}
    for each in left:
        if each.type not in KNOWN:
            if not each.inputs or each.op_def.is_stateful:
                return True
            left += [tensor.op for tensor in each.inputs if tensor.op.name not in seen]
            seen.update(tensor.op.name for tensor in each.inputs)
    return False


def operation_key(operation: Any) -> str:
    stated = sorted((name, str(value)) for name, value in operation.node_def.attr.items())
    return f"{operation.type} {stated} {[tensor.shape for tensor in operation.inputs]}"


def replace_by_call(operation: Any, key: str, first: Any) -> None:
    if key not in _branches:
        _branches[key] = make_branch(operation)
    values = tf.raw_ops.StatelessCase(
        branch_index=first,
        input=list(operation.inputs),
        Tout=[own.dtype for own in operation.outputs],
        branches=[_branches[key]],
        output_shapes=[own.shape for own in operation.outputs],
    )
    for own, value in zip(operation.outputs, values):
        for consumer in own.consumers():
            for place, tensor in enumerate(consumer.inputs):
                if tensor is own:
                    consumer._update_input(place, value)


def make_branch(operation: Any) -> Any:
    kind, types = operation.type, [own.dtype for own in operation.outputs]
    attributes = dict(operation.node_def.attr)

    def branch(*values: Any) -> Any:
        return tf.compat.v1.get_default_graph().create_op(kind, list(values), types, attrs=attributes).outputs

    branch.__name__ = f"shared_{kind}"
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in operation.inputs]
    return tf.function(branch, autograph=False).get_concrete_function(*specs)


CONTEXT = "tensorflow.python.eager.context"
CONCRETE, NAMING = "tensorflow.python.eager.polymorphic_function.concrete_function", "_inference_name"

_numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)


@contextmanager
def compiled_as_a_whole() -> Iterator[None]:
    with without_grappler(), repeatable_names(), shared_operations(), random_numbers_as_without_xla():
        yield


@contextmanager
def without_grappler() -> Iterator[None]:
    """Skip TensorFlow's optimizer of graphs: it leaves the compiled function as it is, and takes its time."""
    module = sys.modules.get(CONTEXT)
    context = module.context() if module is not None else None
    held = getattr(context, "function_call_options", None)
    if context is None or held is None:
        yield
        return
    context.function_call_options = without_optimizer(held)  # of this thread
    try:
        yield
    finally:
        context.function_call_options = held


@functools.lru_cache(maxsize=8)
def without_optimizer(options: Any) -> Any:
    """Return the same options for each step: for others TensorFlow prepares the function anew."""
    config = tf.compat.v1.ConfigProto.FromString(options.config_proto_serialized)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return type(options)(options.executor_type, config)


@contextmanager
def repeatable_names() -> Iterator[None]:
    """Name functions alike in each job: XLA asks its cache by name too, and TensorFlow's names count tensors.

    A job that loads a checkpoint first would find nothing.
    """
    module = sys.modules.get(CONCRETE)
    held = getattr(module, NAMING, None)
    if held is None:
        yield
        return
    setattr(module, NAMING, numbered_name)
    try:
        yield
    finally:
        setattr(module, NAMING, held)


def numbered_name(name: str) -> str:
    """Begin the number with a zero, which keeps it apart from TensorFlow's own."""
    return f"__inference_{name}_0{next(_numbers[name])}"
