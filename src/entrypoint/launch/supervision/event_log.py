"""With DLC_LOGS=1: each process's output, and what became of it, as files that are uploaded with the results.

`output/data/launcher/` gets `<host>-events.jsonl`, a line of JSON for each event (ready, start, stop, failure, end),
and `<host>-<role>-<rank>.log`, bounded in size: the beginning, and in a second file, begun anew when full, the end.
"""

from __future__ import annotations

import contextlib
import os

# Of one process's log
LARGEST_LOG_BYTES = 16 << 20
# Lines; a job that restarts its processes again and again must not fill the disk
MOST_EVENTS = 10_000


class ProcessLog:
    """One process's own output. What cannot be written is left out: the log is no reason for a job to fail."""

    def __init__(self, path: str, largest: int = LARGEST_LOG_BYTES) -> None:
        self._path = path
        self._half = largest // 2
        self._size = 0
        self._file = _open_file(path)

    def write(self, data: bytes) -> None:
        """Add bytes; when the file is full a second one takes what follows, and is begun anew when it is full too."""
        if self._file < 0:
            return
        if self._size + len(data) > self._half:
            os.close(self._file)
            self._file, self._size = _open_file(f"{self._path}.last"), 0
        with contextlib.suppress(OSError):
            self._size += os.write(self._file, data[: self._half]) if self._file >= 0 else 0

    def close(self) -> None:
        """Close the file: no more will come."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class EventLog:
    """The events of this host, and the logs of its processes. `folder` is empty if none are wanted."""

    def __init__(self, folder: str, host: str) -> None:
        self._folder, self._host = folder, host
        self._events = 0
        if folder:
            with contextlib.suppress(OSError):
                os.makedirs(folder, exist_ok=True)

    def record(self, event: str, **facts: object) -> None:
        """Note what happened now: its name, time, host, and what else is known (rank, pid, exit_code, cause)."""
        if not self._folder or self._events >= MOST_EVENTS:
            return
        import json
        import time

        self._events += 1
        line = json.dumps({"event": event, "time": round(time.time(), 3), "host": self._host, **facts})
        with contextlib.suppress(OSError):
            fd = os.open(f"{self._folder}/{self._host}-events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(fd, line.encode() + b"\n")
            finally:
                os.close(fd)

    def open_log(self, role: str, rank: int | str) -> ProcessLog | None:
        """Return a log for one process; None if none is wanted."""
        return ProcessLog(f"{self._folder}/{self._host}-{role}-{rank}.log") if self._folder else None


def _open_file(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError:
        return -1
