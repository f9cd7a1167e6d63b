"""How a run is supervised, what it asks of the group of hosts, and what a stop leaves: seconds and checkpoints."""

from __future__ import annotations

import os

from launch.base.compat import NamedTuple
from launch.base.errors import FAILED, Failure, Verdict, one_line
from launch.base.settings import read_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol


if TYPE_CHECKING:

    class GroupOfHosts(Protocol):
        """The group of hosts that this one is part of: member.Member."""

        # That was asked to stop, and with it this one; empty while none was
        stopping_host: str

        @property
        def must_stay(self) -> bool:
            """Return whether this host stays for the group's end when its own part is done."""

        @property
        def failure_is_tolerated(self) -> bool:
            """Return whether the job goes on although this host, a data host, has failed."""

        def fileno(self) -> int:
            """Return a descriptor that is readable once there is a verdict, or a stop of another host."""

        def verdict(self) -> Verdict | None:
            """Return how the run has to end because the group ended; None while it has not."""

        def report(self, failure: Failure | None, kind: str = FAILED) -> None:
            """Tell the group how this host's part ended: None is well, or with STOPPED: stopped, its state saved."""

        def tell_stopping(self, signum: int) -> None:
            """Tell the group at once that this host was asked to stop."""

        def tell_ended_early(self, by_stop: str = "", left: str = "") -> None:
            """Tell the group of a process that the stop ended here, as a sentence, or of a rank that left with 0."""

        def ended_by_stop(self) -> str:
            """Return the first process of the job that the stop ended, if that was on another host; else empty."""


# The place sends SIGKILL 120 s after its SIGTERM
STOP_GRACE_SECONDS, STOP_MARGIN_SECONDS = 100.0, 20.0
# For what is left when the job's own processes have ended or one has failed
END_GRACE_SECONDS = 10.0


class Settings(NamedTuple):
    """How a run is supervised. All durations in seconds."""

    # In prefixes and failure reports
    host: str = "localhost"
    # `[host:rank] ` before every line; None: if there is more than one process
    prefix: bool | None = None
    # From a request to stop to the end of processes that still save
    stop_grace: float = STOP_GRACE_SECONDS
    # Then until the place's own SIGKILL
    stop_margin: float = STOP_MARGIN_SECONDS
    # From SIGTERM to SIGKILL for what is left after the end (DLC_END_GRACE)
    end_grace: float = END_GRACE_SECONDS
    # Without output and CPU use; 0: never (DLC_HANG_TIMEOUT)
    hang_timeout: float = 0.0
    # Told how this host's part ends; its end ends the run
    group: GroupOfHosts | None = None
    # What ranks below a starter tell us of their ends (rank_files.py)
    rank_folder: str = ""
    # Where ranks count their steps, and where the host of the first rank tells how far they are (progress.py)
    steps_folder: str = ""
    progress_folder: str = ""
    # Roles of processes that start ranks
    starters: tuple[str, ...] = ()
    # For a log of each process and the events of the run; none without it (DLC_LOGS)
    log_folder: str = ""
    # Another run follows on this host: a good end of this one is no news for the group
    more_follows: bool = False


# Seconds from the place's SIGTERM to its SIGKILL, by the variable that shows which place it is, and whose default
# that is; empty for a time that is always so.
STOP_TIMES = (
    # SageMaker: `docker stop -t 120`
    ("TRAINING_JOB_NAME", 120.0, ""),
    ("TRAINING_JOB_ARN", 120.0, ""),
    ("SM_TRAINING_ENV", 120.0, ""),
    # A pod cannot see its own
    ("KUBERNETES_SERVICE_HOST", 30.0, "terminationGracePeriodSeconds"),
    ("SLURM_JOB_ID", 30.0, "Slurm's KillWait"),
)
# Without -t
DOCKER_STOP_TIME = ("", 10.0, "`docker stop`")
# Of the place's time, for all that follows the grace
MARGIN_SHARE, LARGEST_MARGIN = 0.3, 20.0


class Grace(NamedTuple):
    """Both in seconds; together they are within the place's time."""

    # From a stop request to its end for processes that still save
    stop: float
    # For the end of all that is left, the last output, and the goodbye to the other hosts
    margin: float


def stop_limits(environ: Mapping[str, str]) -> Grace:
    """Return the grace of this place. Raises LaunchError for a setting that is no duration.

    DLC_STOP_GRACE is the grace itself; DLC_TERMINATION_GRACE is the place's time, of which a margin is kept.
    """
    limit = read_seconds(environ, "DLC_TERMINATION_GRACE", 0.0)
    limit = limit or _find_platform(environ)[1]
    margin = min(LARGEST_MARGIN, MARGIN_SHARE * limit)
    stated = read_seconds(environ, "DLC_STOP_GRACE", limit - margin)
    return Grace(stated, margin if stated + margin <= limit else min(LARGEST_MARGIN, max(1.0, limit - stated)))


def assumed_grace(environ: Mapping[str, str]) -> str:
    """Say what a stop is taken to leave if only a default tells; empty if somebody said it."""
    _, limit, whose = _find_platform(environ)
    if not whose or environ.get("DLC_TERMINATION_GRACE") or environ.get("DLC_STOP_GRACE"):
        return ""
    return (
        f"a stop is taken to leave {limit:g} s, the default of {whose}, and {stop_limits(environ).stop:g} of them to"
        " save; if it leaves more, say so with DLC_TERMINATION_GRACE=SECONDS"
    )


def _find_platform(environ: Mapping[str, str]) -> tuple[str, float, str]:
    return next((place for place in STOP_TIMES if environ.get(place[0])), DOCKER_STOP_TIME)


def found_checkpoints(folder: str) -> list[str]:
    """Say what an interrupted run of this job left for the next one to go on from."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [f"found checkpoints: {len(names)} in {folder}, such as {one_line(names[-1])}"] if names else []
