"""The end of what did not end when it was told: SIGKILL, again and again, as a process may fork fast.

A process that SIGKILL does not end hangs in the kernel, or nobody can reap it: then the run ends without it.
"""

from __future__ import annotations

import signal
import time

from launch.base.errors import Failure, signal_name
from launch.supervision import process_tree

# What SIGKILL does not end in this time hangs in the kernel
KILL_SECONDS = 10.0
KILL_INTERVAL_SECONDS = 0.05
TWICE = "SIGINT came twice"


class Killing:
    """Of one run."""

    def __init__(self) -> None:
        # What was there when it began, as a message names it
        self.names = ""
        # Why: empty before it begins
        self.why = ""
        self._give_up_at = float("inf")

    @property
    def is_over(self) -> bool:
        """Return whether what is still there is given up."""
        return time.monotonic() >= self._give_up_at

    def strike(self, why: str, bound: float) -> None:
        """Send SIGKILL to all that is left; `bound` seconds after the first time it is given up."""
        if not self.why:
            # Before they are killed: a process that is ending has no command line
            self.names = process_tree.list_processes(process_tree.find_descendants())
            self.why, self._give_up_at = why, time.monotonic() + bound
        process_tree.signal_all(signal.SIGKILL)

    def failure(self, stop: str, host: str, unreaped: str) -> Failure:
        """Return the failure of a stopped run in which nothing else says that a process was killed."""
        killed = self.names or unreaped
        cause = f"{stop}: {killed} was killed, because {self.why or 'it did not end'}"
        return Failure(cause, host=host, exit_code=128 + signal.SIGKILL, signal=signal_name(signal.SIGKILL))
