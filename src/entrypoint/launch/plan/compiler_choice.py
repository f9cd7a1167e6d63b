"""Which compiler the job asks for: DLC_COMPILER, else SageMaker's hyperparameters with the image's default."""

from __future__ import annotations

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision
from launch.job.hyperparameters import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn


SWITCH = "DLC_COMPILER"
DEFAULT = "DLC_COMPILER_DEFAULT"
DEBUG = "DLC_COMPILER_DEBUG"
STRICT = "DLC_COMPILER_STRICT"
ENABLED = "sagemaker_training_compiler_enabled"
DEBUG_MODE = "sagemaker_training_compiler_debug_mode"
BACKENDS = INDUCTOR, XLA = ("inductor", "xla")
# As dlc_runtime reads them
ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
# What dlc_runtime alone reads, DLC_COMPILER_NAME of docs/compiler.md: a value that it does not know is told first
WORDS = {
    "MODE": ("auto", "default", "cuda-graphs", "regional", "max"),
    "EFFORT": ("normal", "max"),
    "OPTIMIZER": ("auto", "off"),
    "DYNAMIC": ("auto", *ON, *OFF),
}
FLAGS = ("TF32", "UNCHECKED")
# With the least that they may be
NUMBERS = {"EAGER_STEPS": 2, "REPORT_MINUTES": 0.001, "DEBUG_MB": 1}
BUDGET = "BUDGET"
MOST = 1e9


class CompilerChoice(NamedTuple):
    """`source` is the variable or the hyperparameter that asks, "" if none does."""

    source: str = ""
    # "off", and "" if the hyperparameter asks and the image has no default
    backend: str = ""
    debug: bool = False

    @property
    def compiles(self) -> bool:
        return self.backend in BACKENDS

    def refuse(self, what: str, expected: str, have: str, remedy: str) -> NoReturn:
        """Raise LaunchError: this compiler cannot work here."""
        raise LaunchError(CONFIG, what, where=self.source, expected=expected, found=have, remedy=remedy)


def choose_compiler(environ: Mapping[str, str], job: Job, own: str) -> CompilerChoice:
    """Return what is asked for. With the strategy's `own` the hyperparameter means that, whatever the image's default.

    Raises LaunchError for a value that is not one of those that a switch takes.
    """
    asked = _word(environ, SWITCH, (*BACKENDS, "off"))
    enabled = job.flag(ENABLED)
    if asked == "off":
        return CompilerChoice(SWITCH, asked)
    if not asked and not enabled:
        return CompilerChoice()
    debug = _flag(environ, DEBUG) or (enabled and job.flag(DEBUG_MODE))
    _check_rest(environ)
    if asked:
        return CompilerChoice(SWITCH, asked, debug)
    return CompilerChoice(ENABLED, own or _word(environ, DEFAULT, BACKENDS), debug)


def as_decisions(found: CompilerChoice) -> tuple[Decision, ...]:
    """Return the line that says what became of the request."""
    if not found.source:
        return ()
    return (Decision(f"compiler {found.backend}" if found.compiles else "no compiler", found.source),)


def _word(environ: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = environ.get(name, "").strip().lower()
    if value and value not in known:
        raise LaunchError(
            CONFIG, "no such value", where=name, expected=f"one of {', '.join(known)}", found=shown(environ[name])
        )
    return value


def _check_rest(environ: Mapping[str, str]) -> None:
    """Check what dlc_runtime alone reads."""
    for name, known in WORDS.items():
        _word(environ, f"{SWITCH}_{name}", known)
    for name in (STRICT, *(f"{SWITCH}_{name}" for name in FLAGS)):
        _flag(environ, name)
    for name, least in NUMBERS.items():
        _check_number(environ, f"{SWITCH}_{name}", least)
    name = f"{SWITCH}_{BUDGET}"
    text = environ.get(name, "").strip()
    if text and any(not 0 <= _number(part.strip().rstrip("%")) < MOST for part in text.split(",")):
        expected = "seconds, a percentage of the job so far, or both, such as 60,5%"
        raise LaunchError(CONFIG, "a budget", where=name, expected=expected, found=shown(environ[name]))


def _check_number(environ: Mapping[str, str], name: str, least: float) -> None:
    text = environ.get(name, "").strip()
    if text and not least <= _number(text) < MOST:
        raise LaunchError(CONFIG, "a number", where=name, expected=f"{least:g} or more", found=shown(environ[name]))


def _number(text: str) -> float:
    """Return -1 for what is no number."""
    try:
        return float(text)
    except ValueError:
        return -1


def _flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in ON + OFF:
        raise LaunchError(CONFIG, "a switch", where=name, expected="1 or 0", found=shown(environ[name]))
    return value in ON
