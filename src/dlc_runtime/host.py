"""This process on its host: CPUs that it may use, and signals that stop what serves. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

GROUPS = "/sys/fs/cgroup"


def usable(groups: str = GROUPS) -> float:
    """Return the CPUs that this process may use: its affinity, or the container's quota if that is less."""
    count = float(len(os.sched_getaffinity(0)))
    return min(count, _quota(groups) or count)


def _quota(groups: str) -> float | None:
    # Version 2; the first word is `max` without a quota.
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"{groups}/cpu.max") as file:
            words = file.read().split()
        return int(words[0]) / int(words[1])
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (_number(f"{groups}/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None


def _number(path: str) -> int:
    with open(path) as file:
        return int(file.read())


@contextlib.contextmanager
def until_signalled(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT in the block, if this is the main thread and the script has no handlers."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, default in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            if signal.getsignal(number) == default:
                before[number] = signal.signal(number, lambda *_: stop())
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)
