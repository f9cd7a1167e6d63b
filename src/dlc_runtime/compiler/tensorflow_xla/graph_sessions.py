"""Scripts of TensorFlow 1: each Session is told to cluster its graphs. It has no steps that could be measured."""

from __future__ import annotations

import functools

import tensorflow as tf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def wrap_sessions(noticed: Callable[[], None]) -> None:
    """`noticed` is called before each Session that is made to cluster."""
    owner = tf.compat.v1.Session
    original = owner.__init__

    @functools.wraps(original)
    def make(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        noticed()
        original(self, target, graph, clustering(config))

    owner.__init__ = make


def clustering(config: Any) -> Any:
    """The script's own choice stays."""
    result = tf.compat.v1.ConfigProto()
    if config is not None:
        result.CopyFrom(config)
    options = result.graph_options.optimizer_options
    if options.global_jit_level == options.DEFAULT:
        options.global_jit_level = options.ON_1
    return result
