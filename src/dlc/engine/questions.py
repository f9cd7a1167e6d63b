"""Waits for an engine that is busy, and tells a user who waits what for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer

TELL_SECONDS = 10.0  # who waits longer is told what for
TELL_AGAIN_SECONDS = 60.0  # several questions may wait for one engine

_told = -TELL_AGAIN_SECONDS
_lock = Lock()


@contextmanager
def told(what: str) -> Iterator[None]:
    """Say on stderr that dlc waits for the engine where the block takes longer than TELL_SECONDS."""
    timer = Timer(TELL_SECONDS, _tell, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(what: str) -> None:
    global _told  # one line for all threads
    with _lock:
        if time.monotonic() - _told < TELL_AGAIN_SECONDS:
            return
        _told = time.monotonic()
    print(f"dlc: waiting for the Docker engine: {what}", file=sys.stderr, flush=True)
