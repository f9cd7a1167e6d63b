"""What trains: a tf.function, or a Keras model with its train function; and what each was compiled for."""

from __future__ import annotations

import sys

from dlc_runtime.compiler.base.places import is_users, place_of
from dlc_runtime.compiler.tensorflow_xla.programs import Program, difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.compiler.tensorflow_xla.signatures import Leaf

BASELINE, COMPILED, OWN, LEFT = "baseline", "compiled", "the script compiles", "left alone"


class Owner:
    def __init__(self, name: str, file: str, line: int, parameters: int = 0) -> None:
        self.name, self.file, self.line, self.parameters = name, file, line, parameters
        self.training = self.random = False
        self.phase = BASELINE
        self.calls = 0
        self.fresh = True  # the next call is the first one of its phase
        self.clusters = True  # compiled by auto-clustering, else as a whole
        self.expects_trace = True  # nothing to report: the first one, and the one that compiling needs
        self.signature: dict[str, Leaf] | None = None
        self._shapes: dict[str, tuple[str, ...]] = {}

    def begin(self, phase: str) -> None:
        self.phase, self.fresh = phase, True

    def compiled_again(self, programs: list[Program]) -> str:
        """What is another in a program that was there before; "" where all are new. Keeps what they are."""
        found = ""
        for program in programs:
            old = self._shapes.get(program.name)
            if old is not None and program.name and not found:
                found = f"{program.name}: {difference(old, program.shapes) or 'the same shapes, another constant'}"
            self._shapes[program.name] = program.shapes
        return found


def of_function(function: Any) -> Owner:
    python = getattr(function, "python_function", function)
    name = getattr(python, "__qualname__", type(python).__name__).replace("<locals>.", "")
    return Owner(name, *place_of(python))


def of_model(model: Any) -> Owner:
    file, line = place_of(type(model).call) if hasattr(type(model), "call") else ("", 0)
    name = type(model).__name__
    if not is_users(file):
        name, (file, line) = str(getattr(model, "name", name)), users_line()
    return Owner(name, file, line, parameters_of(model))


def parameters_of(model: Any) -> int:
    try:
        return int(model.count_params())
    except Exception:  # a model that is not built yet
        return 0


def users_line() -> tuple[str, int]:
    """The line of the user's that is running now, or ("", 0)."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0
