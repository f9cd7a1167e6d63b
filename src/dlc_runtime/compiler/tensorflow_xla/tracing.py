"""The one place that reads TensorFlow's private parts: when a function is made into a graph, and how long it took.

What a version lacks reads as nothing.
"""

from __future__ import annotations

import functools
import sys
import time

import tensorflow as tf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MODULE = "tensorflow.python.framework.func_graph"
ENTRY = "func_graph_from_py_func"
STATEFUL_RANDOM = ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "Multinomial")


class Tracing:
    """Seconds of tracing so far, of the outermost functions."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.random = False  # something that was traced draws random numbers whose state XLA keeps otherwise
        self._depth = 0

    def listen(self) -> bool:
        module = sys.modules.get(MODULE)
        entry = getattr(module, ENTRY, None)
        if entry is None:
            return False

        @functools.wraps(entry)
        def traced(*arguments: Any, **named: Any) -> Any:
            self._depth += 1
            started = time.perf_counter()
            try:
                graph = entry(*arguments, **named)
                self.random |= draws_random_numbers(graph)
                return graph
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - started

        setattr(module, ENTRY, traced)
        return True


def draws_random_numbers(graph: Any) -> bool:
    operations = graph.get_operations() if hasattr(graph, "get_operations") else ()
    return any(operation.type in STATEFUL_RANDOM for operation in operations)


def function_class() -> Any:
    """Of what tf.function returns; it moved between versions."""
    return type(tf.function(lambda: None))


def wrap_call(called: Callable[..., Any]) -> None:
    """`called(function, call, arguments, named)` stands for each call of a tf.function."""
    owner = function_class()
    original = owner.__call__

    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return called(self, original, arguments, named)

    owner.__call__ = call


def wrap_gradient(noticed: Callable[[], None]) -> None:
    """`noticed` is called before each gradient that the script asks a tape for."""
    original = tf.GradientTape.gradient

    @functools.wraps(original)
    def gradient(self: Any, *arguments: Any, **named: Any) -> Any:
        noticed()
        return original(self, *arguments, **named)

    tf.GradientTape.gradient = gradient


def traces(function: Any) -> int:
    count = getattr(function, "experimental_get_tracing_count", None)
    return int(count()) if count is not None else 0


def is_jitted(function: Any) -> bool:
    return bool(getattr(function, "_jit_compile", None) or getattr(function, "_experimental_compile", None))
