"""Import hook: waits for TensorFlow and Keras's trainers, imports neither; and prepare(model) for scripts."""

from __future__ import annotations

import os
import sys

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


class Finder:
    """Lets the usual finders find these modules, and acts before and after their import."""

    def __init__(self) -> None:
        self.failed = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != TENSORFLOW and name not in TRAINERS:
            return None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                self._act_around(spec, name)
                return spec
        return None

    def _act_around(self, spec: ModuleSpec, name: str) -> None:
        loader: Any = spec.loader
        if loader is None:
            return
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if name == TENSORFLOW:
                self._act_safely(before_tensorflow, spec)
            run(module)
            if not self.failed:
                self._act_safely(after_tensorflow if name == TENSORFLOW else after_trainer, module)

        loader.exec_module = exec_module

    def _act_safely(self, act: Callable[[Any], None], argument: Any) -> None:
        try:
            act(argument)
        except Exception as fault:
            self.failed = True
            if os.environ.get("DLC_COMPILER_STRICT", "").strip().lower() in TRUE:
                raise StrictError(f"DLC_COMPILER_STRICT=1: nothing can be compiled: {fault}") from fault
            log(f"nothing will be compiled: {fault}")


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
    sys.meta_path.insert(0, Finder())


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
