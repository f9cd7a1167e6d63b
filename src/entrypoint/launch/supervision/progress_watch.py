"""When to look at the steps of this host's ranks. What reads them (progress.py) is loaded at the first look."""

from __future__ import annotations

import time

from launch.supervision.rank_files import make_empty_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launch.supervision.progress import Progress

LOOK_SECONDS = 10.0


class ProgressWatch:
    """Of one run of the processes on this host; without a folder it never looks."""

    def __init__(self, folder: str, results: str) -> None:
        """Take the folder of step files, which is made anew, and the one for the report."""
        self._folder = make_empty_folder(folder) if folder else ""
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
