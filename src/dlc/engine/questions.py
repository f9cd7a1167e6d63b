"""Questions to an engine that may be busy: asked again after a fault, and a user who waits is told what for."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

from dlc.core.errors import EngineError

if TYPE_CHECKING:
    from dlc.core.process import Completed
    from dlc.engine.connection import Engine

ASK_SECONDS = 180.0  # an engine that builds, prunes or unpacks on a slow disk may need a minute
PAUSES = (1.0, 5.0, 15.0)  # seconds before a question is asked again that the engine could not answer
TELL_SECONDS = 10.0  # who waits longer is told what for
TELL_AGAIN_SECONDS = 60.0  # several questions may wait for one engine

# What engines say of something that is not there, or that has a name which nothing can have.
ABSENT = re.compile(r"(?i)no such (?:image|container|object)|image not known|invalid reference format")
ERROR = re.compile(r"(?i)error|cannot|request returned")  # what a client's line of an error begins with

_told = -TELL_AGAIN_SECONDS
_lock = Lock()


def ask(engine: Engine, *words: str, seconds: float = ASK_SECONDS) -> Completed:
    """The answer to `docker WORDS`, with an exit code other than 0 only where something that it names is not there.

    Raises EngineError for no answer within `seconds`, and for an error that stays when it is asked again.
    """
    deadline = time.monotonic() + seconds
    command = f"docker {' '.join(words[:2])}"
    with told(f"`{command}`"):
        for pause in (*PAUSES, math.inf):
            left = round(max(0.1, deadline - time.monotonic()), 1)
            done = engine.docker(*words, check=False, timeout=left)
            fault = _fault(done)
            if not fault:
                return done
            if time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
    raise EngineError(
        f"{engine.address or 'the Docker engine'}: `{command}` failed: {fault}", "run the same command again"
    )


def _fault(done: Completed) -> str:
    """Why the engine could not answer; "" where it did, be it that something is not there."""
    if not done.returncode:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    others = [line for line in lines if not ABSENT.search(line)]
    if len(others) == len(lines):
        return lines[-1] if lines else f"exit code {done.returncode}, and it said nothing"
    return next((line for line in others if ERROR.match(line)), "")


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
