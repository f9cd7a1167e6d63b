"""What is looked at from time to time while processes run: hangs and steps. Loads what looks only if it is asked."""

from __future__ import annotations

import time

from launch.supervision.rank_files import make_empty_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launch.supervision.hang import Watchdog
    from launch.supervision.progress import Progress

LOOK_SECONDS = 10.0


def load_watchdog(timeout: float) -> Watchdog | None:
    """Return what looks for a hang of so many seconds; None for 0, if nobody asks for it."""
    if not timeout:
        return None
    from launch.supervision.hang import Watchdog

    return Watchdog(timeout)


class ProgressWatch:
    """Of one run of the processes on this host; on a host without the job's first rank it never looks."""

    def __init__(self, folder: str, results: str) -> None:
        """Take the folder of step files, which is made anew, and the one for the report, empty if there is none."""
        made = make_empty_folder(folder) if folder else ""
        self._folder = made if results else ""
        self._results = results
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._progress: Progress | None = None

    def limit_wait(self, seconds: float) -> float:
        """Return how long the next look lets wait, at most `seconds`."""
        return min(seconds, self._look_at - time.monotonic()) if self._folder else seconds

    def look(self, is_last: bool = False) -> str:
        """Return a line on how far the job is if one is due now, else nothing."""
        now = time.monotonic()
        if not self._folder or not (is_last or now >= self._look_at):
            return ""
        from launch.supervision.progress import Progress

        self._look_at = now + LOOK_SECONDS
        self._progress = self._progress or Progress(self._folder, self._results, now)
        return self._progress.look(now, is_last)
