"""How many CPUs this process may use: its affinity, and the quota of its container. Standard library only."""

from __future__ import annotations

import contextlib
import os

GROUPS = "/sys/fs/cgroup"


def usable(groups: str = GROUPS) -> float:
    """CPUs that this process may use: its affinity, or the container's quota if that is less."""
    count = float(len(os.sched_getaffinity(0)))
    return min(count, _quota(groups) or count)


def _quota(groups: str) -> float | None:
    with contextlib.suppress(OSError, ValueError, IndexError):  # version 2; the first word is `max` without a quota
        with open(os.path.join(groups, "cpu.max")) as file:
            words = file.read().split()
        return int(words[0]) / int(words[1])
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (_number(os.path.join(groups, "cpu", f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None


def _number(path: str) -> int:
    with open(path) as file:
        return int(file.read())
