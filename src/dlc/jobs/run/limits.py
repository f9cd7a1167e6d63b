"""What each host of a job may use at most: --cpus, --memory and --gpus, read as `docker run` reads them.

An engine tells of a limit that it cannot give only when the network and the folders of a job are there. So each word is
judged before: by itself, and by what `docker info` says. An engine that says nothing of a kind is not judged by it.
"""

from __future__ import annotations

import re

from dlc.core.errors import UsageError
from dlc.engine.connection import Engine
from dlc.engine.remedies import GPU_REMEDY
from dlc.jobs.run.job import Group, Job

LEAST_CPUS = 0.01
LEAST_MEMORY = 6 << 20  # bytes: a container with less does not start
CPUS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")  # docker refuses a tenth decimal
SIZE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?(b|[kmgtp](i?b)?)?", re.IGNORECASE)
GPUS = re.compile(r'all|[0-9]{1,9}|("?)device=([\w:/.-]+(?:,[\w:/.-]+)*)\1', re.ASCII)
DEVICES = re.compile(r'"?device=')  # begins a value of --gpus, not a group
UNITS = " kmgtp"  # each 1,024 times the one before


def read_cpus(word: str) -> str:
    """Return the value of --cpus, empty for no limit. Raises ValueError with what was expected."""
    if not CPUS.fullmatch(word) or 0 < float(word) < LEAST_CPUS:
        raise ValueError(f"a number of CPUs, such as 0.5, and no less than {LEAST_CPUS}")
    return word if float(word) else ""


def read_memory(word: str) -> str:
    """Return the value of --memory, empty for no limit. Raises ValueError with what was expected."""
    if 0 < count_bytes(read_size(word)) < LEAST_MEMORY:
        raise ValueError("6m or more, which is the least that a container starts with")
    return word if count_bytes(word) else ""


def read_size(word: str) -> str:
    """Return a size as it was typed. Raises ValueError with what was expected."""
    if not SIZE.fullmatch(word):
        raise ValueError("a size, such as 512m or 4g")
    return word


def read_gpus(word: str) -> str:
    """Return the value of --gpus, empty for none. Raises ValueError with what was expected."""
    found = GPUS.fullmatch(word)
    if not found:
        raise ValueError("`all` or a number of GPUs, or some of them, such as device=0,1")
    if found[2]:
        # The client reads CSV: without the quotes it would take a second device for another setting.
        return f'"device={found[2]}"'
    return word.lstrip("0")  # the engine would want a GPU driver for 0 too


def count_bytes(size: str) -> int:
    """Return how many bytes a size is that `read_size` has taken."""
    number = float(size.rstrip("bBiIkKmMgGtTpP"))
    unit = re.sub("[0-9.]|i?b$", "", size, flags=re.IGNORECASE).lower()
    return int(number * 1024 ** UNITS.index(unit or " "))


def require_limits(job: Job, engine: Engine) -> None:
    """Raise UsageError for the first limit that is more than the engine's host has."""
    for group in job.groups:
        if engine.cpus and float(group.cpus or 0) > engine.cpus:
            raise _refuse(job, group, "--cpus", group.cpus, f"{engine.cpus} at most", str(engine.cpus))
        most = f"{engine.memory >> 20}m"
        if engine.memory and count_bytes(group.memory or "0") > engine.memory:
            raise _refuse(job, group, "--memory", group.memory, f"{most} at most", most)
        if group.gpus and not engine.offers_gpus:
            raise UsageError(
                f"{_place(job, group, '--gpus', group.gpus)}: expected an engine that gives GPUs to containers, found "
                f"neither NVIDIA's runtime nor a CDI device of a GPU at {_name(engine)}",
                GPU_REMEDY,
            )


def _refuse(job: Job, group: Group, option: str, value: str, expected: str, most: str) -> UsageError:
    where = _place(job, group, option, value)
    prefix = f"{group.name}=" if len(job.groups) > 1 else ""
    return UsageError(
        f"{where}: expected {expected}, which is all that the engine's host has",
        f"{option} {prefix}{most}, or less, or leave it out",
    )


def _place(job: Job, group: Group, option: str, value: str) -> str:
    """Return an option as it could be typed; of a job with several groups with the group's name."""
    return f"{option} {group.name}={value}" if len(job.groups) > 1 else f"{option} {value}"


def _name(engine: Engine) -> str:
    return engine.address or "the Docker engine"
