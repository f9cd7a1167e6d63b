"""Calls of a function whose work a compiled one inside it does: what loading from the cache need not wait for.

Reads TensorFlow's private parts; what a version lacks stays as it is.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import defaultdict
from contextlib import contextmanager

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla.shared import shared_operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CONTEXT = "tensorflow.python.eager.context"
FUNCTIONS, NAMING = "tensorflow.python.eager.polymorphic_function.concrete_function", "_inference_name"

_numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)


@contextmanager
def compiled_as_a_whole() -> Iterator[None]:
    with without_grappler(), names_of_every_job(), shared_operations():
        yield


@contextmanager
def without_grappler() -> Iterator[None]:
    """It leaves the compiled function as it is, and takes its time with what is around it."""
    module = sys.modules.get(CONTEXT)
    context = module.context() if module is not None else None
    held = getattr(context, "function_call_options", None)
    if context is None or held is None:
        yield
        return
    context.function_call_options = ungrappled(held)  # of this thread
    try:
        yield
    finally:
        context.function_call_options = held


@functools.lru_cache(maxsize=8)
def ungrappled(options: Any) -> Any:
    """The same ones for each step: for others TensorFlow prepares the function anew."""
    config = tf.compat.v1.ConfigProto.FromString(options.config_proto_serialized)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return type(options)(options.executor_type, config)


@contextmanager
def names_of_every_job() -> Iterator[None]:
    """XLA asks its cache by name too, and TensorFlow's names count the tensors before: a job that loads a checkpoint
    first would find nothing."""
    module = sys.modules.get(FUNCTIONS)
    held = getattr(module, NAMING, None)
    if held is None:
        yield
        return
    setattr(module, NAMING, numbered)
    try:
        yield
    finally:
        setattr(module, NAMING, held)


def numbered(name: str) -> str:
    """The zero keeps it apart from TensorFlow's own numbers."""
    return f"__inference_{name}_0{next(_numbers[name])}"
