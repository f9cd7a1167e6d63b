"""CPU seconds of processes and of this container, from /proc and the control groups."""

from __future__ import annotations

import contextlib
import os
import time

from dlc_runtime.usable_cpus import GROUPS, usable

TICKS = os.sysconf("SC_CLK_TCK")


def _number(path: str) -> int:
    with open(path) as file:
        return int(file.read())


def container_seconds(groups: str = GROUPS) -> float | None:
    """CPU seconds of all processes of this container so far; on a plain host, of the host. None: no file says it."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(os.path.join(groups, "cpu.stat")) as file:
            values = dict(line.split() for line in file)
        return int(values["usage_usec"]) / 1e6
    with contextlib.suppress(OSError, ValueError):
        return _number(os.path.join(groups, "cpuacct", "cpuacct.usage")) / 1e9
    return None


def tree_seconds(root: int) -> float:
    """CPU seconds of a process and all its descendants so far, also of those that ended and were waited for."""
    parents, seconds = _processes()
    return sum(value for pid, value in seconds.items() if _descends(pid, root, parents))


def descendants(root: int) -> list[int]:
    """The processes below one that run now."""
    parents, _ = _processes()
    return [pid for pid in parents if pid != root and _descends(pid, root, parents)]


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    """Of every process its parent, and its CPU seconds."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                parents[int(name)], seconds[int(name)] = _process(int(name))
    return parents, seconds


def _process(pid: int) -> tuple[int, float]:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()  # a program's name may hold spaces and parentheses
    return int(fields[1]), sum(int(field) for field in fields[11:15]) / TICKS


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root


class Processors:
    """What the CPUs did since it was made."""

    def __init__(self) -> None:
        self.usable = usable()
        self._began = time.monotonic()
        self._container, self._tree = container_seconds(), tree_seconds(os.getpid())

    def as_json(self) -> dict[str, float]:
        seconds = max(time.monotonic() - self._began, 1e-9)
        tree = tree_seconds(os.getpid()) - self._tree
        now = container_seconds()
        whole = tree if now is None or self._container is None else max(now - self._container, tree)
        busy = min(whole / (seconds * self.usable), 1.0)
        return {"usable": self.usable, "busy": busy, "seconds": seconds, "job_cpu_seconds": max(tree, 0.0)}
