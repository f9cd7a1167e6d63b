"""One stop on this host: tells each process once, in its turn, and knows whether one is left that may save.

The main processes are told at once (stop_targets.py). When they have ended, what they left behind is told in the same
way: if a script dies of the stop and leaves a training, the training has what is left of the grace, and keeps its own
workers until it has ended. A script that was spared because of a training below it has a moment to go on when the
training has ended, and is told then. Loaded only for a stop.
"""

from __future__ import annotations

import os
import signal
import time

from launch.supervision import canary, process_tree, stop_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from launch.supervision.settings import Settings


class GracefulStop:
    """Used by the supervisor from the first signal to the end of the run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Process -> the signals that it got of the stop
        self._sent: dict[int, set[int]] = {}
        # What is to save now, or has been told to end
        self._told: list[int] = []
        # What main processes left behind, once it was looked through for others
        self._known_orphans: set[int] = set()
        # Starters that made themselves daemons before the stop, such as mpirun's orted: no main process left them
        self._daemons: set[int] = set()
        # Scripts that were passed over for the training below them
        self._spared: list[int] = []
        # When those that were told had ended
        self._quiet_since: float | None = None
        # An orphan is left that may still do something of use
        self._has_orphans = False

    @property
    def is_awaited(self) -> bool:
        """Return whether something that the script started is left, which has the grace."""
        return self._has_orphans or self._tells_run()

    def tell(self, signum: int, planned: Collection[int], serving: Collection[int] = ()) -> None:
        """Tell the main processes below the planned ones, or those that are told already, of one kind of signal.

        `serving` processes stay (one may have started the daemon of mpirun's ranks), those below them are told.
        """
        running = [pid for pid in self._told if process_tree.is_running(pid)]
        if not running:
            snapshot = stop_targets.take_snapshot()
            found = stop_targets.first_to_stop(snapshot, [*planned, *serving], os.getpid())
            running = [pid for pid in found if pid not in serving]
            tops = self._pass_over(snapshot, running) - {*planned, *serving}
            self._daemons |= {pid for pid in tops if not stop_targets.is_shell(process_tree.command_of(pid))}
        # A SIGTERM to all processes of the host has reached them already
        if canary.has_fallen(signum):
            for pid in process_tree.find_descendants():
                self._sent.setdefault(pid, set()).add(signal.SIGTERM)
        self._send(signum, running)

    def advance(self, own: Collection[int]) -> None:
        """Tell who is next, if all that were told have ended; `own` are the launcher's own children."""
        if self._tells_run():
            self._quiet_since = None
            return
        orphans = process_tree.find_orphans(but={*own, *self._daemons})
        snapshot = stop_targets.take_snapshot() if orphans else []
        at_work = stop_targets.left_at_work(snapshot, orphans)
        self._has_orphans = bool(at_work)
        if new := [pid for pid in at_work if pid not in self._known_orphans]:
            self._known_orphans.update(new)
            mains = stop_targets.first_to_stop(snapshot, new)
            self._pass_over(snapshot, mains)
            self._send(signal.SIGTERM, mains)
        elif self._spared:
            self._end_spared()

    def tell_rest(self) -> None:
        """Tell all that have not been told."""
        self._send(signal.SIGTERM, [pid for pid in process_tree.find_descendants() if pid not in self._sent])

    def _send(self, signum: int, pids: Iterable[int]) -> None:
        """Send it to each that has not got it yet; paused ones go on, to save."""
        for pid in pids:
            actual = process_tree.stop_signal(pid, signum)
            sent = self._sent.setdefault(pid, set())
            if actual not in sent:
                sent.add(actual)
                process_tree.send_signal(pid, actual)
            if process_tree.is_paused(pid):
                process_tree.send_signal(pid, signal.SIGCONT)
            if pid not in self._told:
                self._told.append(pid)

    def _tells_run(self) -> bool:
        return any(map(process_tree.is_running, self._told))

    def _pass_over(self, snapshot: Collection[stop_targets.Process], mains: Collection[int]) -> set[int]:
        """Note the scripts above these main processes, to be told later; return what stands below the launcher."""
        tree = {process.pid: process for process in snapshot}
        tops = set()
        for main in mains:
            pid = main
            while (parent := tree[pid].parent) in tree:
                pid = parent
                if pid not in (*mains, *self._spared) and not stop_targets.is_wrapper(tree[pid].words):
                    self._spared.append(pid)
            tops.add(pid)
        return tops

    def _end_spared(self) -> None:
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        if now - self._quiet_since >= self._settings.end_grace:
            left, self._spared = self._spared, []
            self._send(signal.SIGTERM, [pid for pid in left if process_tree.is_running(pid)])


def describe_stop(why: str, settings: Settings) -> str:
    """Say to whom a stop is passed on, and how many seconds are left."""
    limit = settings.stop_grace + settings.stop_margin
    text = f"{why}: the main processes are told, and have {settings.stop_grace:g} s to save"
    return f"{text} of the {limit:g} s until the place's SIGKILL (DLC_TERMINATION_GRACE)"
