"""What a stop leaves: seconds to save (the user's word, else what the platform leaves of its time), and checkpoints."""

from __future__ import annotations

import os

from launch.base.compat import NamedTuple
from launch.base.errors import one_line
from launch.base.settings import seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Seconds from the platform's SIGTERM to its SIGKILL, by the variable that shows which platform it is, and whose default
# that is; empty for a time that is always so.
PLATFORMS = (
    ("TRAINING_JOB_NAME", 120.0, ""),  # SageMaker: `docker stop -t 120`
    ("TRAINING_JOB_ARN", 120.0, ""),
    ("SM_TRAINING_ENV", 120.0, ""),
    ("KUBERNETES_SERVICE_HOST", 30.0, "terminationGracePeriodSeconds"),  # a pod cannot see its own
    ("SLURM_JOB_ID", 30.0, "Slurm's KillWait"),
)
DOCKER = ("", 10.0, "`docker stop`")  # without -t
MARGIN, LARGEST_MARGIN = 0.3, 20.0  # of the platform's time, for all that follows the grace


class Grace(NamedTuple):
    """Both in seconds; together they are within the platform's time."""

    stop: float  # from a stop request to its end for processes that still save
    margin: float  # for the end of all that is left, the last output, and the goodbye to the other hosts


def of(environ: Mapping[str, str]) -> Grace:
    """The grace of this platform. Raises LaunchError for a switch that is no duration.

    DLC_STOP_GRACE is the grace itself; DLC_TERMINATION_GRACE is the platform's time, of which a margin is kept.
    """
    limit = seconds(environ, "DLC_TERMINATION_GRACE", 0.0)
    limit = limit or _platform(environ)[1]
    margin = min(LARGEST_MARGIN, MARGIN * limit)
    stated = seconds(environ, "DLC_STOP_GRACE", limit - margin)
    return Grace(stated, margin if stated + margin <= limit else min(LARGEST_MARGIN, max(1.0, limit - stated)))


def assumption(environ: Mapping[str, str]) -> str:
    """Say what a stop is taken to leave where only a default tells; empty where somebody said it."""
    _, limit, whose = _platform(environ)
    if not whose or environ.get("DLC_TERMINATION_GRACE") or environ.get("DLC_STOP_GRACE"):
        return ""
    return (
        f"a stop is taken to leave {limit:g} s, the default of {whose}, and {of(environ).stop:g} of them to save;"
        " if it leaves more, say so with DLC_TERMINATION_GRACE=SECONDS"
    )


def _platform(environ: Mapping[str, str]) -> tuple[str, float, str]:
    return next((platform for platform in PLATFORMS if environ.get(platform[0])), DOCKER)


def found_checkpoints(folder: str) -> list[str]:
    """What an interrupted run of this job left for the next one to go on from."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [f"found checkpoints: {len(names)} in {folder}, such as {one_line(names[-1])}"] if names else []
