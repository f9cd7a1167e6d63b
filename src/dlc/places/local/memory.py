"""The limit of memory that hosts of a job on this machine get if nobody said one.

Without a limit one worker that takes all memory stops the machine, and the engine and all other work with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dlc.engine.docker_client import Engine
from dlc.job.limits import count_bytes
from dlc.places.local.job import Job
from dlc.places.local.lifecycle import ContainerState

# Of what is free on the engine's machine, for all hosts of the job that have no limit of their own.
SHARE = 0.9
# A host gets no less, so that a busy machine does not end jobs that fit.
LEAST_BYTES = 2 << 30
# Machines round what they say of their memory.
ROUNDING_BYTES = 64 << 20
MEMORY_OF_HOST = Path("/proc/meminfo")


def read_free_bytes(engine: Engine, source: Path = MEMORY_OF_HOST) -> int:
    """Return the bytes that are free on the engine's machine.

    If that is not this machine, these are all that it has; 0 if the engine does not say it.
    """
    try:
        said = {name: int(kilobytes) << 10 for name, kilobytes in re.findall(r"(\w+): +(\d+) kB", source.read_text())}
    except OSError:
        return engine.memory
    is_here = abs(said.get("MemTotal", 0) - engine.memory) <= ROUNDING_BYTES
    return said.get("MemAvailable", engine.memory) if is_here else engine.memory


def limit_memory(job: Job, free: int, total: int) -> tuple[Job, str]:
    """Return the job with a limit for each host that has none, and a line that says it; empty if all have one. Pure.

    `free` bytes of `total` are there; 0 if nobody knows.
    """
    open_groups = [group for group in job.groups if not group.memory and not group.unlimited]
    hosts = sum(len(group.hosts) for group in open_groups)
    if not hosts or not free:
        return job, ""
    taken = sum(count_bytes(group.memory) * len(group.hosts) for group in job.groups if group.memory)
    each = max(int((free - taken) * SHARE) // hosts, min(LEAST_BYTES, total // 2))
    size = f"{each >> 20}m"
    groups = tuple(replace(group, memory=size) if group in open_groups else group for group in job.groups)
    names = ", ".join(group.name for group in open_groups)
    whose = "each host gets" if len(open_groups) == len(job.groups) else f"each host of {names} gets"
    line = f"{whose} {size} of memory at most, of {free >> 20}m that are free; --memory says another limit, 0 is none"
    return replace(job, groups=groups), line


def take_limit(job: Job, engine: Engine, say: Callable[[str], None]) -> Job:
    """Return the job with the limits that it gets on this engine, and say them."""
    limited, line = limit_memory(job, read_free_bytes(engine), engine.memory)
    if line:
        say(line)
    return limited


def explain_memory(job: Job, host: str, state: ContainerState) -> str:
    """Tell that a host ran out of memory, and of how much; empty if it did not."""
    if not state.out_of_memory:
        return ""
    size = job.group_of(host).memory
    return f"{host} ran out of memory: it had {size or 'no limit'}; --memory SIZE gives it more"
