"""Notices that a job hangs: for a whole timeout no process wrote anything and all together used next to no CPU."""

from __future__ import annotations

import os
import time

from launch.supervision import descendants

# A job that waits still wakes up its background threads now and then; one that works uses far more. A rank that waits
# in a busy loop (NCCL spins) counts as working: its framework's own timeout has to notice.
IDLE_SHARE = 0.01  # of one core


class Watchdog:
    """Asked again and again; remembers when there was progress last."""

    def __init__(self, timeout: float) -> None:
        """`timeout` in seconds; 0 never barks."""
        self.timeout = timeout
        self._progress_at = self._looked_at = time.monotonic()
        self._bytes = 0
        self._ticks: dict[int, int] = {}
        self._used_since_progress = 0.0
        self._interval = min(5.0, timeout / 4)

    def is_hung(self, bytes_read: int) -> bool:
        """Whether there was no progress for `timeout` seconds; `bytes_read` counts the output so far."""
        now = time.monotonic()
        if not self.timeout or now - self._looked_at < self._interval:
            return False
        if now - self._looked_at > 2 * self._interval + 1.0:
            self._progress_at = now  # this process stood still itself (a paused container)
        self._looked_at = now
        self._used_since_progress += self._cpu_seconds()
        busy = self._used_since_progress > IDLE_SHARE * max(self._interval, now - self._progress_at)
        if bytes_read != self._bytes or busy:
            self._bytes, self._progress_at, self._used_since_progress = bytes_read, now, 0.0
        return now - self._progress_at >= self.timeout

    def cause(self, host: str) -> str:
        """What it barks at."""
        return (
            f"the job hangs on {host}: no output and no CPU use for {self.timeout:g} s (DLC_HANG_TIMEOUT); "
            "the Python stacks of its processes follow"
        )

    def _cpu_seconds(self) -> float:
        """CPU time that descendants used since the last call; a new process counts with all it has used."""
        ticks = {pid: descendants.cpu_ticks(pid) for pid in descendants.descendants()}
        used = sum(max(0, count - self._ticks.get(pid, 0)) for pid, count in ticks.items())
        self._ticks = ticks
        return float(used) / os.sysconf("SC_CLK_TCK")
