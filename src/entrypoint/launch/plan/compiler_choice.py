"""Which compiler the job asks for: DLC_COMPILER, else hyperparameters with the image's default."""

from __future__ import annotations

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
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
# As in dlc_runtime
ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
# What dlc_runtime alone reads (docs/compiler.md): a wrong value is told first
WORDS = {
    "MODE": ("auto", "default", "cuda-graphs", "regional", "max"),
    "EFFORT": ("normal", "max"),
    "OPTIMIZER": ("auto", "off"),
    "DYNAMIC": ("auto", *ON, *OFF),
}
FLAGS = ("TF32", "UNCHECKED")
# And the least of each
NUMBERS = {"EAGER_STEPS": 2, "REPORT_MINUTES": 0.001, "DEBUG_MB": 1}
MOST = 1e9


class CompilerChoice(NamedTuple):
    """What is asked for, and by what."""

    source: str = ""
    # "off", or "" if the image has no default
    backend: str = ""
    debug: bool = False

    @property
    def compiles(self) -> bool:
        return self.backend in BACKENDS

    def refuse(self, what: str, expected: str, have: str, remedy: str) -> NoReturn:
        """Raise LaunchError."""
        raise LaunchError(CONFIG, what, where=self.source, expected=expected, found=have, remedy=remedy)


def choose_compiler(environ: Mapping[str, str], job: Job, own: str) -> CompilerChoice:
    """Return what is asked for. The hyperparameter means the strategy's `own`, else the image's default.

    Raises LaunchError for a wrong value.
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


def _word(environ: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = environ.get(name, "").strip().lower()
    if value and value not in known:
        expected = f"one of {', '.join(known)}"
        raise LaunchError(CONFIG, "no such value", where=name, expected=expected, found=shown(environ[name]))
    return value


def _check_rest(environ: Mapping[str, str]) -> None:
    """Check what dlc_runtime alone reads."""
    for name, known in WORDS.items():
        _word(environ, f"{SWITCH}_{name}", known)
    for name in (STRICT, *(f"{SWITCH}_{name}" for name in FLAGS)):
        _flag(environ, name)
    for name, least in NUMBERS.items():
        text = environ.get(f"{SWITCH}_{name}", "").strip()
        if text and not least <= _number(text) < MOST:
            where, expected = f"{SWITCH}_{name}", f"{least:g} or more"
            raise LaunchError(CONFIG, "a number", where=where, expected=expected, found=shown(text))
    name = f"{SWITCH}_BUDGET"
    text = environ.get(name, "").strip()
    if text and any(not 0 <= _number(part.strip().rstrip("%")) < MOST for part in text.split(",")):
        expected = "seconds, a percentage of the job so far, or both, such as 60,5%"
        raise LaunchError(CONFIG, "a budget", where=name, expected=expected, found=shown(text))


def _number(text: str) -> float:
    """Return -1 if it is no number."""
    try:
        return float(text)
    except ValueError:
        return -1


def _flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in ON + OFF:
        raise LaunchError(CONFIG, "a switch", where=name, expected="1 or 0", found=shown(environ[name]))
    return value in ON
