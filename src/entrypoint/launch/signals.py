"""Requests to stop: remembered from the first moment on, and readable as a file descriptor."""

from __future__ import annotations

import os
import select
import signal

# A terminal or service manager that goes away sends SIGHUP, a terminal SIGQUIT.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Schedulers announce a preemption so, or ask for a checkpoint
RELAYED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
# And what is ignored stays so in a new program
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

_received: list[int] = []
_relayed: list[int] = []
# Not empty while a stop signal interrupts what is being done
_raising: list[bool] = []
# The read end of the pipe that the interpreter's C handler fills
_wakeup: list[int] = []


class StopRequested(Exception):  # noqa: N818 - like StopIteration: a request, not an error
    """A stop signal came while the launcher was still getting ready."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        # As in shells
        self.exit_code = 128 + signum


def arm() -> None:
    """Remember signals to stop and to relay, and wake a poll() for them and SIGCHLD. Safe to call twice."""
    if _wakeup:
        return
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for signum in STOP_SIGNALS:
        # nohup
        if signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, _on_stop)
    for signum in RELAYED_SIGNALS:
        signal.signal(signum, lambda number, _frame: _relayed.append(number))
    # Who started us may have blocked them, and that stays so in us and in all that we start.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, *RELAYED_SIGNALS, signal.SIGCHLD))
    # The wake-up descriptor is written only for signals with a handler, if only an empty one.
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    _wakeup.append(read_end)


def ignore() -> None:
    """Ignore stop signals from now on: they come too late."""
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def _on_stop(signum: int, _frame: object) -> None:
    _received.append(signum)
    if _raising:
        raise StopRequested(signum)


class Interrupting:
    """Within this a stop signal raises StopRequested at once, also out of an open() that blocks.

    For steps that leave nothing behind when they are cut short.
    """

    def __enter__(self) -> None:
        _raising.append(True)
        try:
            raise_if_stopped()
        except StopRequested:  # then nothing calls __exit__, and a second signal is not to interrupt the goodbye
            _raising.clear()
            raise

    def __exit__(self, *_: object) -> None:
        _raising.clear()


def received() -> tuple[int, ...]:
    """Return every stop signal so far, oldest first."""
    return tuple(_received)


def take_relayed() -> tuple[int, ...]:
    """Return SIGUSR1 and SIGUSR2 since the last call: for processes that have a handler."""
    taken = tuple(_relayed)
    del _relayed[: len(taken)]
    return taken


def fileno() -> int:
    """Return the descriptor that is readable after a signal; `drain_wakeups` empties it. Arms the handlers."""
    arm()
    return _wakeup[0]


def drain_wakeups() -> None:
    """Empty the wake-up pipe; the signals themselves stay in `received`."""
    try:
        while os.read(fileno(), 4096):
            pass
    except BlockingIOError:
        pass


def raise_if_stopped() -> None:
    """Raise StopRequested if a stop signal came: before any process is started."""
    if _received:
        raise StopRequested(_received[0])


def sleep(seconds: float) -> None:
    """Wait, but not longer than until a stop signal, which raises StopRequested."""
    raise_if_stopped()
    select.select([fileno()], [], [], max(0.0, seconds))
    drain_wakeups()
    raise_if_stopped()
