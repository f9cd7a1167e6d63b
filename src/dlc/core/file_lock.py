"""Locks on files, so that one process works at a time. The kernel releases them when a process ends."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlc.core.errors import ProcessError

ASK_AGAIN_SECONDS = 0.1
SHORT_WORK_SECONDS = 180.0  # for work of a moment: its disk may stand still, and the lock of a dead process is free


@contextmanager
def exclusive(path: Path, seconds: float = SHORT_WORK_SECONDS) -> Iterator[None]:
    """Hold the lock of `path` in the block: a folder, or a file, which is created if it is missing. Others wait.

    Raises ProcessError when another process still holds it after `seconds`.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not try_lock(descriptor):
            print(f"waiting for another dlc: {path}", file=sys.stderr, flush=True)
            _wait(descriptor, path, seconds)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file if nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(descriptor: int, path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            raise ProcessError(f"{path}: another dlc has held this lock for {seconds:.0f} s", "wait for it, or end it")
        time.sleep(ASK_AGAIN_SECONDS)
