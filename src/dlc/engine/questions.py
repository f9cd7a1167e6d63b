"""Questions to an engine that may be busy: asked again after a fault, and a user who waits is told what for."""

from __future__ import annotations

import math
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Timer

from dlc.core.errors import EngineError
from dlc.core.process import Completed
from dlc.engine.docker_client import Engine

# An engine that builds, prunes or unpacks on a slow disk may need a minute.
ASK_SECONDS = 180.0
# Before a question is asked again that the engine could not answer.
PAUSES_SECONDS = (1.0, 5.0, 15.0)
# Who waits longer is told what for.
TELL_SECONDS = 10.0
# Several questions may wait for one engine.
TELL_AGAIN_SECONDS = 60.0
# A part of what verbs that only look have.
CONNECT_SECONDS = 0.5

# What engines say of something that is not there, or that has a name which nothing can have.
ABSENT = re.compile(r"(?i)no such (?:image|container|object)|image not known|invalid reference format")
# A client's line of an error begins so.
ERROR = re.compile(r"(?i)error|cannot|request returned")

_told_at = -TELL_AGAIN_SECONDS
_lock = Lock()


def ask_engine(engine: Engine, *words: str, seconds: float = ASK_SECONDS) -> Completed:
    """Return the answer to `docker WORDS`: its exit code is 0 unless something that it names is not there.

    Raises EngineError for no answer within `seconds`, and for an error that stays when it is asked again.
    """
    deadline = time.monotonic() + seconds
    command = f"docker {' '.join(words[:2])}"
    with tell_of_waiting(f"`{command}`"):
        for pause in (*PAUSES_SECONDS, math.inf):
            left = round(max(0.1, deadline - time.monotonic()), 1)
            done = engine.docker(*words, check=False, timeout=left)
            fault = _find_fault(done)
            if not fault:
                return done
            if time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
    raise EngineError(
        f"{engine.address or 'the Docker engine'}: `{command}` failed: {fault}", "run the same command again"
    )


def _find_fault(done: Completed) -> str:
    """Return why the engine could not answer; "" if it did, be it that something is not there."""
    if not done.returncode:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    others = [line for line in lines if not ABSENT.search(line)]
    if len(others) == len(lines):
        return lines[-1] if lines else f"exit code {done.returncode}, and it said nothing"
    return next((line for line in others if ERROR.match(line)), "")


@contextmanager
def tell_of_waiting(what: str, has_answered: Callable[[], bool] = lambda: False) -> Iterator[Callable[[], None]]:
    """Say on stderr that dlc waits for the engine if the block takes longer than TELL_SECONDS.

    Nothing is said if the engine `has_answered` then, or after a call of what the block gets.
    """
    timer = Timer(TELL_SECONDS, _print_waiting, (what, has_answered))
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _print_waiting(what: str, has_answered: Callable[[], bool]) -> None:
    # An engine that does not even answer this question is waited for.
    with suppress(EngineError):
        if has_answered():
            return
    # One line for all threads.
    global _told_at
    with _lock:
        if time.monotonic() - _told_at < TELL_AGAIN_SECONDS:
            return
        _told_at = time.monotonic()
    print(f"dlc: waiting for the Docker engine: {what}", file=sys.stderr, flush=True)


def takes_connections(address: str) -> bool:
    """Tell whether a program listens at the address of an engine. If it does, a silent engine is busy, or hangs."""
    kind, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    try:
        with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(place if kind == "unix" else (host, int(port)))
    except (OSError, ValueError):
        return False
    return kind in ("unix", "tcp")
