"""For a script that asks for the compiler itself: `dlc_runtime.compiler.prepare(model)` before the model's fit."""

from __future__ import annotations

import os
import sys

from dlc_runtime.compiler.base import settings as settings_of
from dlc_runtime.compiler.tensorflow_xla import keras_fit, session
from dlc_runtime.compiler.tensorflow_xla.entry import imports, preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def prepare(model: Any) -> Any:
    """Its first step is compiled already, so the report has none to compare with."""
    if os.environ.get(settings_of.BACKEND, "").strip().lower() == settings_of.OFF:
        return model
    if session.current() is None:
        arm_now()
    keras_fit.compile_at_once(model)
    return model


def arm_now() -> None:
    """TensorFlow is imported, and has run nothing: XLA has not read its flags yet."""
    os.environ[settings_of.BACKEND] = settings_of.XLA  # child processes inherit it
    tensorflow = sys.modules[imports.TENSORFLOW]
    preparation.prepare(os.environ, os.path.dirname(tensorflow.__file__ or ""))
    session.start()
    for name in imports.TRAINERS:
        if name in sys.modules:
            imports.after_trainer(sys.modules[name])
