"""A lock for one of several processes that do the same work at the same time; the others wait until it has ended.

It is a lock of the kernel: if the process that holds it is killed, it is free. All that have waited go on at once. So
nobody waits twice, and work that left nothing behind is done by each of them, as without the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from dlc_runtime.compiler.hooks import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

POLL_SECONDS = 0.02


@contextlib.contextmanager
def take_turn(path: str, longest_seconds: float) -> Iterator[bool]:
    """Hold the lock if it is free, else wait until it is and hold nothing; yield whether it is held."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        # A folder that cannot be written: each process does the work.
        yield False
        return
    try:
        is_held = try_lock(lock, fcntl.LOCK_EX)
        if not is_held:
            wait_until_free(lock, longest_seconds)
        yield is_held
        if is_held:
            # Those that wait have it open.
            with contextlib.suppress(OSError):
                os.unlink(path)
    finally:
        os.close(lock)


def wait_until_free(lock: int, longest_seconds: float) -> None:
    """Return when the holder has ended its work. A holder that is stopped, not killed, is waited for no longer."""
    end = time.monotonic() + longest_seconds
    while not try_lock(lock, fcntl.LOCK_SH):
        if time.monotonic() > end:
            log(f"another rank compiles for more than {longest_seconds:g} s: this rank does not wait any longer")
            return
        time.sleep(POLL_SECONDS)
    fcntl.flock(lock, fcntl.LOCK_UN)


def try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: nobody waits.
        return True
    return True
