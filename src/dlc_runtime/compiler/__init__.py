"""Compiles the models of an unchanged script and reports it; may import the standard library, torch and tensorflow.

A `.pth` line imports `import_hook` in every Python of the image, so this file imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def prepare(model: Any, *optimizers: Any) -> Any:
    """Compile `model` now, in place, and report its steps; returns it. Does nothing with DLC_COMPILER=off or xla.

    For those who want it in the script. Without this line the same happens after the first eager steps.
    """
    if any(base.__module__.partition(".")[0] in ("keras", "tf_keras") for base in type(model).__mro__):
        from dlc_runtime.compiler.tensorflow_xla.import_hook import prepare as prepare_keras

        return prepare_keras(model)
    from dlc_runtime.compiler.pytorch.session import prepare as prepare_now

    return prepare_now(model, optimizers)
