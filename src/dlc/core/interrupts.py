"""Signals that ask dlc to stop raise KeyboardInterrupt wherever the main thread is, but not within `held`.

There they wait for the end of the block: what is begun in it is known to somebody who ends it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

# A signal that does nothing to its receiver.
WAKE = signal.SIGURG
# Seconds from one to the next, and how many: a busy host may let a thread wait for a second.
WAKE_SECONDS, WAKES = 0.02, 50
# `timeout` and a closing terminal send two at a time to say one thing.
ONCE = (signal.SIGTERM, signal.SIGHUP)

# How many blocks of `held` the main thread is in.
_depth = 0
# Whether a signal came meanwhile.
_waiting = False
# Whether what one has raised reached nobody.
_is_lost = False
# What reports all other exceptions that reach nobody.
_report: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__
_waker: threading.Thread | None = None


def install_handlers() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP end dlc in one way, unless the caller ignores them, as nohup does."""
    for number in (signal.SIGINT, *ONCE):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _on_signal)


def keep_awake() -> None:
    """Let no signal be missed by the main thread, which calls this, while it waits.

    One that comes in the moment before it begins to wait interrupts nothing, and Python runs the handler only after the
    wait: a busy host makes this moment long enough for one signal of a hundred. So each is followed by some that
    interrupt whatever the thread waits for by then.

    What a signal raises in a callback of a weak reference or in `__del__` reaches nobody, and each import runs such a
    callback: then one of those that follow raises it again.
    """
    global _waker, _report
    if _waker:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(WAKE, _on_wake)
    _report, sys.unraisablehook = sys.unraisablehook, _note_lost
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _waker = threading.Thread(target=_wake_main, args=(reading, threading.get_ident()), daemon=True)
    _waker.start()


def _note_lost(unraisable: sys.UnraisableHookArgs) -> None:
    global _is_lost
    if unraisable.exc_type is KeyboardInterrupt:
        _is_lost = True
    else:
        _report(unraisable)


def _on_wake(number: int, frame: FrameType | None) -> None:
    global _is_lost
    if _is_lost:
        _is_lost = False
        _on_signal(signal.SIGINT, frame)


def _wake_main(reading: int, main: int) -> None:
    while number := os.read(reading, 1):
        if number[0] == WAKE:
            continue
        for _ in range(WAKES):
            time.sleep(WAKE_SECONDS)
            signal.pthread_kill(main, WAKE)


class Held:
    """A block that is short and never waits for anybody. It may stand in another one, and in any thread."""

    def __enter__(self) -> None:
        global _depth
        # Another thread that wrote back the number it had read would undo what the main thread counted meanwhile.
        if _is_main():
            _depth += 1

    def __exit__(self, *_: object) -> None:
        global _depth, _waiting
        if not _is_main():
            return
        _depth -= 1
        if _waiting and not _depth:
            _waiting = False
            raise KeyboardInterrupt


held = Held()


def _is_main() -> bool:
    """Tell whether this is the main thread: Python runs the handlers of signals in no other."""
    return threading.current_thread() is threading.main_thread()


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _waiting
    if number in ONCE:
        for same in ONCE:
            # Not SIG_IGN, which the programs that it starts would inherit.
            signal.signal(same, lambda *_: None)
    _waiting = _depth > 0
    if not _waiting:
        raise KeyboardInterrupt
