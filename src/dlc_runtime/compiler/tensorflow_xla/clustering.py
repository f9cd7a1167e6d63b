"""Switches auto-clustering, which holds for all that is called, around the calls of functions that it compiles."""

from __future__ import annotations

import tensorflow as tf

from dlc_runtime.compiler.tensorflow_xla import tf_internals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Clustering:
    """Whether clusters are compiled. The script may have switched them on before the first step."""

    def __init__(self) -> None:
        # None: ours to set, and not set yet.
        self._is_on: bool | None = None

    def is_the_scripts(self) -> bool:
        """Tell whether the script has switched it on itself."""
        return self._is_on is None and bool(tf.config.optimizer.get_jit())

    def switch(self, wanted: bool) -> None:
        """Switch it for what is called from now on."""
        if wanted != bool(self._is_on):
            self._is_on = wanted
            tf_internals.switch_clustering(wanted)

    def without(self, call: Callable[[], Any]) -> Any:
        """Call a step without it for once."""
        if not self._is_on:
            return call()
        tf_internals.switch_clustering(False)
        try:
            return call()
        finally:
            tf_internals.switch_clustering(True)
