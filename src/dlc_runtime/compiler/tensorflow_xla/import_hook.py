"""Import hook: waits for TensorFlow and Keras's trainers, imports neither; and prepare(model) for scripts."""

from __future__ import annotations

import os
import sys

from dlc_runtime.after_import import act_after
from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.settings import StrictError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable

TENSORFLOW = "tensorflow"
TRUE = ("1", "true", "yes", "on")
# Module -> class whose `make_train_function` builds what `fit` runs: Keras 3, tf-keras, Keras 2.13 to 2.15, older.
TRAINERS = {
    "keras.src.backend.tensorflow.trainer": "TensorFlowTrainer",
    "tf_keras.src.engine.training": "Model",
    "keras.src.engine.training": "Model",
    "keras.engine.training": "Model",
}


class Hooks:
    """What is done around these imports; after a fault nothing more is."""

    def __init__(self) -> None:
        self.failed = False

    def arm(self) -> None:
        act_after(TENSORFLOW, self._safely(after_tensorflow), self._safely(before_tensorflow))
        for name in TRAINERS:
            act_after(name, self._safely(after_trainer))

    def _safely(self, act: Callable[[Any], None]) -> Callable[[Any], None]:
        def run(argument: Any) -> None:
            if self.failed:
                return
            try:
                act(argument)
            except Exception as fault:
                self.failed = True
                if os.environ.get("DLC_COMPILER_STRICT", "").strip().lower() in TRUE:
                    raise StrictError(f"DLC_COMPILER_STRICT=1: nothing can be compiled: {fault}") from fault
                log(f"nothing will be compiled: {fault}")

        return run


def before_tensorflow(spec: ModuleSpec) -> None:
    """Set XLA's flags: XLA reads them once, when it is first used."""
    from dlc_runtime.compiler.tensorflow_xla import preparation

    preparation.prepare(os.environ, os.path.dirname(spec.origin or ""))


def after_tensorflow(_tensorflow: ModuleType) -> None:
    from dlc_runtime.compiler.tensorflow_xla import session

    session.start()


def after_trainer(trainer: ModuleType) -> None:
    from dlc_runtime.compiler.tensorflow_xla import keras_fit

    keras_fit.patch(getattr(trainer, TRAINERS[trainer.__name__]))


def install() -> None:
    Hooks().arm()


def prepare(model: Any) -> Any:
    """Compile from the first step on, so the report has none to compare with."""
    if os.environ.get(settings_of.BACKEND, "").strip().lower() == settings_of.OFF:
        return model
    from dlc_runtime.compiler.tensorflow_xla import keras_fit, session

    if session.current() is None:
        install_late()
    keras_fit.compile_at_once(model)
    return model


def install_late() -> None:
    """Install into a TensorFlow that is imported and has run nothing: XLA has not read its flags yet."""
    from dlc_runtime.compiler.tensorflow_xla import preparation, session

    os.environ[settings_of.BACKEND] = settings_of.XLA  # child processes inherit it
    tensorflow = sys.modules[TENSORFLOW]
    preparation.prepare(os.environ, os.path.dirname(tensorflow.__file__ or ""))
    session.start()
    for name in TRAINERS:
        if name in sys.modules:
            after_trainer(sys.modules[name])
