"""What is asked of `dlc tune-batch`, and the job of each trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlc.core.errors import UsageError
from dlc.jobs.run.job import Job

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
    """A job, which hyperparameter is its batch size, and within which bounds to look."""

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
    """Return the value of a hyperparameter.

    Raises UsageError if the job has none of that name, or no number above 0.
    """
    if name not in job.hyperparameters:
        raise UsageError(
            f"{option} {name}: expected a hyperparameter of the job, found {_name_known(list(job.hyperparameters))}",
            f"--hp {name}=VALUE, with the value that the job has now",
        )
    text = job.hyperparameters[name].strip().strip('"')
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"--hp {name}={text}: expected a number above 0", "the value that the job has now")
    return value


def read_batch(job: Job, name: str) -> int:
    """Return the batch size of now. Raises UsageError if it is no whole number."""
    value = read_number(job, name, "--hp-name")
    if value != int(value):
        raise UsageError(f"--hp {name}={value:g}: expected a whole number", "the batch size that the job has now")
    return int(value)


def _name_known(names: Sequence[str]) -> str:
    return f"only {', '.join(names)}" if names else "none at all"


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
        job,
        id=f"{job.id}-{mode.name}-{batch}",
        folder=Path(job.folder) / f"{mode.name}-{batch}",
        hyperparameters={**job.hyperparameters, request.batch_name: str(batch)},
        environment={**job.environment, **mode.environment, **ours},
        stop_seconds=STOP_SECONDS,
    )
