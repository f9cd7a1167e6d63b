"""Sends a stop to the processes that are to hear of it: the main ones first, what they left behind after them."""

from __future__ import annotations

import os
import signal

from launch.supervision import descendants, snapshot
from launch.supervision.mains import is_starter, mains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


def tell_mains(signum: int, planned: Collection[int], serving: Collection[int]) -> list[int]:
    """Tell the main processes below the planned ones; the pids of those that were told. Paused ones go on, to save.

    `serving` processes stay (one may have started the daemon of mpirun's ranks), those below them are told.
    """
    found = mains(snapshot.take(), [*planned, *serving], os.getpid())
    told = [pid for pid in found if pid not in serving and descendants.send(pid, _as_heard(pid, signum))]
    for pid in filter(descendants.is_paused, told):
        descendants.send(pid, signal.SIGCONT)
    return told


def end_orphans(own: Collection[int]) -> None:
    """SIGTERM to what main processes left behind when they ended; `own` are the launcher's own children."""
    for pid in descendants.orphans(but=own):
        if not is_starter(descendants.command(pid)):
            descendants.send(pid, signal.SIGTERM)


def _as_heard(pid: int, signum: int) -> int:
    """SIGHUP and SIGQUIT as they came to whom has a handler for them; SIGTERM to all others, which save on that."""
    as_it_is = signum in (signal.SIGTERM, signal.SIGINT) or descendants.catches(pid, signum)
    return signum if as_it_is else signal.SIGTERM
