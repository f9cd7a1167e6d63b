"""Which compiler the job asks for: DLC_COMPILER, else SageMaker's hyperparameters with the image's default."""

from __future__ import annotations

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision
from launch.job.hyperparameters import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


SWITCH = "DLC_COMPILER"
DEFAULT = "DLC_COMPILER_DEFAULT"
DEBUG = "DLC_COMPILER_DEBUG"
STRICT = "DLC_COMPILER_STRICT"
ENABLED = "sagemaker_training_compiler_enabled"
DEBUG_MODE = "sagemaker_training_compiler_debug_mode"
BACKENDS = ("inductor", "xla")
# As dlc_runtime reads them
ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class CompilerChoice(NamedTuple):
    """`source` is the variable or the hyperparameter that asks, "" if none does."""

    source: str = ""
    # "off", and "" if the hyperparameter asks and the image has no default
    backend: str = ""
    debug: bool = False

    @property
    def compiles(self) -> bool:
        return self.backend in BACKENDS


def choose_compiler(environ: Mapping[str, str], job: Job, strategy: str) -> CompilerChoice:
    """Return what is asked for. With `strategy` xla the hyperparameter means XLA, whatever the image's default.

    Raises LaunchError for a value that is not one of those that a switch takes.
    """
    asked = _word(environ, SWITCH, (*BACKENDS, "off"))
    enabled = job.flag(ENABLED)
    if asked == "off":
        return CompilerChoice(SWITCH, asked)
    if not asked and not enabled:
        return CompilerChoice()
    debug = _flag(environ, DEBUG) or (enabled and job.flag(DEBUG_MODE))
    # dlc_runtime reads it
    _flag(environ, STRICT)
    if asked:
        return CompilerChoice(SWITCH, asked, debug)
    return CompilerChoice(ENABLED, "xla" if strategy == "xla" else _word(environ, DEFAULT, BACKENDS), debug)


def as_decisions(found: CompilerChoice) -> tuple[Decision, ...]:
    """Return the line that says what became of the request."""
    if not found.source:
        return ()
    return (Decision(f"compiler {found.backend}" if found.compiles else "no compiler", found.source),)


def _word(environ: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = environ.get(name, "").strip().lower()
    if value and value not in known:
        raise LaunchError(
            CONFIG, "no such compiler", where=name, expected=f"one of {', '.join(known)}", found=shown(environ[name])
        )
    return value


def _flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in ON + OFF:
        raise LaunchError(CONFIG, "a switch", where=name, expected="1 or 0", found=shown(environ[name]))
    return value in ON
