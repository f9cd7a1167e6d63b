"""A child that falls if a stop reaches every process of this host: nobody is then told of it twice.

Slurm's proctrack/linuxproc sends the SIGTERM of scancel to all descendants of a task, proctrack/cgroup to the task
alone. Nothing else shows from inside which of them a site has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from launch.supervision import process_tree

# Slurm's word to another host may come later than that host's own word to us.
REACH_SECONDS = 1.0
POLL_SECONDS = 0.01


_started: list[int] = []


def start() -> None:
    """Start the child; none outside of Slurm, and none if a cgroup of the step shows the other way."""
    _started.clear()
    if "SLURM_JOB_ID" not in os.environ or _has_cgroup_of_step():
        return
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    # Without the program the launcher does as it would elsewhere.
    with contextlib.suppress(OSError):
        words = ["sleep", "infinity"]
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=null, setpgroup=0, setsigdef=[signal.SIGTERM])
        _started.append(pid)


def _has_cgroup_of_step() -> bool:
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            return "/step_" in file.read()
    except OSError:
        return False


def has_fallen(signum: int) -> bool:
    """Tell whether a SIGTERM has ended the child, or ends it in a moment; False for other signals, and without one."""
    if signum != signal.SIGTERM:
        return False
    deadline = time.monotonic() + REACH_SECONDS
    while any(map(process_tree.is_running, _started)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return bool(_started) and not any(map(process_tree.is_running, _started))
