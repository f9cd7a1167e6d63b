"""What is asked of `dlc tune-batch`, and the job of each trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlc.core.errors import UsageError
from dlc.places.local.job import Job

# A trial has nothing to save.
STOP_SECONDS = 5
EAGER, PLAIN = "eager", "job"
# In a host's /opt/ml: what the trial measured.
REPORTS = "output/data/profile"
OURS = ("DLC_PROFILE", "DLC_PROFILE_ENDS_JOB", "DLC_PROFILE_STEPS", "DLC_PROFILE_SKIP", "DLC_PROFILE_REPORT")
COMPILER = "DLC_COMPILER"


@dataclass(frozen=True)
class Mode:
    """A way to run the job. `skip` are its first steps, which prepare and compile: they are not measured."""

    name: str
    environment: Mapping[str, str]
    skip: int


@dataclass(frozen=True)
class Request:
    """A job, which hyperparameter or argument is its batch size, and within which bounds to look."""

    job: Job
    batch_name: str
    # The batch that the job has now.
    batch: int
    # Its learning rate, if one was named.
    rate: float | None
    rate_name: str
    modes: tuple[Mode, ...]
    # Share of the memory that stays free.
    margin: float
    most: int
    steps: int
    # The bound of one trial.
    seconds: float


def list_modes(compiler: str) -> tuple[Mode, ...]:
    """Return eager and compiled side by side; without a compiler the job as it is."""
    if not compiler:
        return (Mode(PLAIN, {}, 3),)
    compiled = {COMPILER: compiler, "DLC_COMPILER_EAGER_STEPS": "2", "DLC_COMPILER_MODE": "default"}
    return Mode(EAGER, {COMPILER: "off"}, 3), Mode(compiler, compiled, 5)


def check_job(job: Job, compiler: str) -> None:
    """Raise UsageError for a job that cannot be tried out."""
    if job.checkpoints:
        raise UsageError(
            "--checkpoints: expected none, because each trial would go on from the last one's", "leave it out"
        )
    if unlimited := [group.name for group in job.groups if not group.memory and not group.gpus]:
        raise UsageError(
            f"{', '.join(unlimited)}: expected a limit that a batch can exceed, found none: a trial would take all"
            " of this machine",
            "--memory SIZE, as much as the hosts of the real job have, or --gpus N",
        )
    if taken := [name for name in (*OURS, *((COMPILER,) if compiler else ())) if name in job.environment]:
        raise UsageError(f"--env {taken[0]}: dlc tune-batch sets this variable itself", "leave it out")


def read_number(job: Job, name: str, option: str) -> float:
    """Return the value of a hyperparameter, or of an argument behind the script.

    Raises UsageError if the job has none of that name, or both, or no number above 0.
    """
    place = find_argument(job.command, name)
    if (place is None) == (name not in job.hyperparameters):
        known = list(job.hyperparameters)
        found = _name_known(known, job.command[1:]) if place is None else "both"
        raise UsageError(
            f"{option} {name}: expected a hyperparameter or an argument of the job, found {found}",
            f"--{name} VALUE behind the script, or --hp {name}=VALUE before it, with the value that the job has now",
        )
    if place:
        text = job.command[place.index].removeprefix(place.prefix)
    else:
        text = job.hyperparameters[name].strip().strip('"')
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"{name}={text}: expected a number above 0", "the value that the job has now")
    return value


def read_batch(job: Job, name: str) -> int:
    """Return the batch size of now. Raises UsageError if it is no whole number."""
    value = read_number(job, name, "--hp-name")
    if value != int(value):
        raise UsageError(f"{name}={value:g}: expected a whole number", "the batch size that the job has now")
    return int(value)


@dataclass(frozen=True)
class Argument:
    """The place of an argument's value: the word with this index is `prefix` and the value."""

    index: int
    prefix: str


def find_argument(words: Sequence[str], name: str) -> Argument | None:
    """Find `--name VALUE`, `--name=VALUE` or `name=VALUE`; of several the last one, which counts for parsers too."""
    for index, word in reversed([*enumerate(words)]):
        option, sign, _ = word.partition("=")
        if option.lstrip("-") != name:
            continue
        if sign:
            return Argument(index, f"{option}=")
        if word.startswith("-") and index + 1 < len(words):
            return Argument(index + 1, "")
    return None


def _name_known(names: Sequence[str], arguments: Sequence[str]) -> str:
    known = [*names, *([f"the arguments {' '.join(arguments)}"] if arguments else [])]
    return f"only {', '.join(known)}" if known else "none at all"


def set_batch(job: Job, name: str, batch: int) -> Job:
    """Return the job with another batch size, which `read_batch` has found."""
    if place := find_argument(job.command, name):
        command = (*job.command[: place.index], f"{place.prefix}{batch}", *job.command[place.index + 1 :])
        return replace(job, command=command)
    return replace(job, hyperparameters={**job.hyperparameters, name: str(batch)})


def make_trial_job(request: Request, mode: Mode, batch: int) -> Job:
    """Return the job with another batch size; it measures itself and ends after a few steps."""
    job = request.job
    ours = {
        "DLC_PROFILE": "1",
        "DLC_PROFILE_ENDS_JOB": "1",
        "DLC_PROFILE_STEPS": str(request.steps),
        "DLC_PROFILE_SKIP": str(mode.skip),
    }
    return replace(
        set_batch(job, request.batch_name, batch),
        id=f"{job.id}-{mode.name}-{batch}",
        folder=Path(job.folder) / f"{mode.name}-{batch}",
        environment={**job.environment, **mode.environment, **ours},
        stop_seconds=STOP_SECONDS,
    )
