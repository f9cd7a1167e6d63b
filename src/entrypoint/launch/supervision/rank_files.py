"""The files through which the parents of ranks (rank_wrapper.py) and this host's launcher talk.

It holds these files and one for each rank. If it could not be made, nobody hears of their ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from launch.base.compat import NamedTuple

# The launcher is ending the job
MARKER = "stopping"
# Every running rank shares it
LOCK = "running"
# For who writes
OUTPUT_LOCK = "output"
# Its pid, until a rank has ended with 0
LAUNCHER = "launcher"


class RankEnd(NamedTuple):
    """What its parent knows."""

    rank: str
    host: str
    # Of the user's program
    pid: int
    # -N for signal N; None: it runs, or was killed with its parent
    code: int | None = None
    last_lines: tuple[str, ...] = ()
    # Failure.error
    error: tuple[str, ...] = ()
    # Of the wall clock, to compare ranks
    ended_at: float = 0.0


class RankFolder:
    """The folder, as either side uses it; `path` may be empty."""

    def __init__(self, path: str) -> None:
        self.path = path if path and os.path.isdir(path) else ""
        self._told = not self.path

    @property
    def is_stopping(self) -> bool:
        """Return whether the launcher is ending the job."""
        return bool(self.path) and os.path.exists(f"{self.path}/{MARKER}")

    def mark_stopping(self) -> None:
        """Say that the end of a rank is no reason to end the others."""
        self._write(MARKER, "")

    def join(self) -> int:
        """Share the lock; return its descriptor, to wait for the end of all others."""
        if (fd := self.open_lock(LOCK)) >= 0:
            fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    def open_lock(self, name: str) -> int:
        """Return a descriptor for flock(); -1 without a folder."""
        try:
            return os.open(f"{self.path}/{name}", os.O_RDWR | os.O_CREAT, 0o600) if self.path else -1
        except OSError:
            return -1

    def write(self, end: RankEnd) -> None:
        """Tell how a rank stands."""
        self._write(f"{end.rank}.json", json.dumps(end._replace(ended_at=time.time())))

    def first_to_leave(self) -> str:
        """Return once the first rank that ended, if that was with 0; else empty."""
        if self._told or os.path.exists(f"{self.path}/{LAUNCHER}"):
            return ""
        self._told = True
        return "".join(f"worker rank {end.rank} on {end.host}" for end in self.read_ends()[:1] if end.code == 0)

    def read_ends(self) -> list[RankEnd]:
        """Return all ranks: those that ended in their order, then those that did not."""
        found: list[RankEnd] = []
        try:
            names = os.listdir(self.path) if self.path else []
        except OSError:  # a script may empty /tmp
            return found
        for name in names:
            if name.endswith(".json"):
                with contextlib.suppress(OSError, ValueError), open(f"{self.path}/{name}", encoding="utf-8") as file:
                    fields = RankEnd(*json.load(file))
                    found.append(fields._replace(last_lines=tuple(fields.last_lines), error=tuple(fields.error)))
        return sorted(found, key=lambda end: (end.code is None, end.ended_at))

    def _write(self, name: str, text: str) -> None:
        if not self.path:
            return
        # A full disk ends no rank
        with contextlib.suppress(OSError):
            part = f"{self.path}/.{name}.{os.getpid()}"
            with open(part, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            os.replace(part, f"{self.path}/{name}")


def make_rank_folder(folder: str) -> str:
    """Make this folder, empty; its path, "" if none is wanted or can be made."""
    if made := make_empty_folder(folder):
        RankFolder(made)._write(LAUNCHER, str(os.getpid()))
    return made


def make_empty_folder(folder: str) -> str:
    """Make a folder for files of this run, without those of an earlier one in this container; "" if that fails."""
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
    except OSError:
        return ""
    return folder
