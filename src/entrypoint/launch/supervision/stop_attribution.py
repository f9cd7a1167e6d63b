"""Which failures follow from a stop, or from another process's end, and so are not the reason.

After a stop an error counts as such a consequence when the stop had ended a process anywhere in the job before it, or
is heard to have done so in half of the margin after it: news from another host may come later than broken connections.
Without a stop its words say it. A process that failed takes a moment to end, in which others notice, fail and end.
"""

from __future__ import annotations

import signal
import time

from launch.base.errors import Failure
from launch.signals import STOP_SIGNALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launch.supervision.rank_files import RankEnd, RankFolder
    from launch.supervision.settings import GroupOfHosts


# How a process ends that the stop ended, also one below a shell, which has no signal to show.
_ENDED = frozenset(128 + signum for signum in (*STOP_SIGNALS, signal.SIGKILL))

# For the process that failed first to end; a busy host takes some for Python and its libraries
CAUSE_SECONDS = 15.0


class StopAttribution:
    """What one host knows of a stop and its consequences."""

    def __init__(self, group: GroupOfHosts | None = None) -> None:
        self._group = group
        # The group, if there is one, knows that the stop ended a process here
        self._told = False
        # The first process of the job that the stop ended, as a sentence; empty for none in time
        self.ended = ""
        # When it is too late for that: an error came first
        self._until = float("inf")
        # It follows from another process's failure, which may still come
        self.awaiting: Failure | None = None
        self._await_until = 0.0

    @property
    def is_settled(self) -> bool:
        """Return whether nothing that is still heard changes the reason."""
        return bool(self.ended) or time.monotonic() > self._until

    def note_error(self, patience: float) -> None:
        """Note an error of a process here; what is heard within `patience` seconds still explains it."""
        self._until = min(self._until, time.monotonic() + patience)

    def note_ended(self, ended: str) -> None:
        """Note that the stop ended a process, here or elsewhere; empty for no news."""
        if not self.is_settled:
            self.ended = ended

    def note_ended_here(self, what: str, explains: bool = True) -> None:
        """Note that the stop ended a process here, which `explains` errors here unless one of them came first.

        Whoever worked with it on other hosts is going to fail, and is to know why.
        """
        if explains:
            self.note_ended(what)
        if self._group and not self._told:
            self._group.tell_ended_early(what)
        self._told = True

    def look_for_ended(self, ranks: RankFolder, patience: float) -> None:
        """See whom the stop ended: ranks below a starter, which holds its own end back for them; elsewhere."""
        if self._told and self.is_settled:
            return
        ended, has_error = look_at_ranks(ranks.read_ends())
        if ended:
            self.note_ended_here(ended)
        if self._group:
            self.note_ended(self._group.ended_by_stop())
        if has_error:
            self.note_error(patience)

    def explain(self, own: Failure, why: str, signum: int) -> Failure:
        """Return the failure of a stopped run as its user is to see it; `why` is what asked for the stop.

        Of a consequence the stop is the reason and gives the exit code, and the error is told behind it.
        """
        if not self.ended or was_ended_by_stop(own.exit_code):
            return own
        what = own.cause[len(why) + 2 :] if own.cause.startswith(f"{why}: ") else own.cause
        return own._replace(cause=f"{why}: {self.ended}; then {what}", exit_code=128 + signum, signal="")

    def is_awaited(self, failure: Failure) -> bool:
        """Return whether this failure is no reason yet: a rank lost another one, whose own may still come."""
        # Only jobs that failed need it
        from launch.supervision.failure_cause import is_consequence

        if not is_consequence(failure.last_lines):
            return False
        if self._await_until == 0.0:
            self.awaiting, self._await_until = failure, time.monotonic() + CAUSE_SECONDS
        return self.awaiting is not None

    def give_up(self, may_come: bool) -> Failure | None:
        """Return the awaited failure if no other explained it in time, or none `may_come`: it is the reason."""
        awaiting = self.awaiting
        if awaiting is None or (may_come and time.monotonic() < self._await_until):
            return None
        self.awaiting = None
        return awaiting

    def limit_wait(self, seconds: float) -> float:
        """Return for how long nobody need ask."""
        return min(seconds, max(0.0, self._await_until - time.monotonic())) if self.awaiting else seconds

    def with_consequence(self, reason: Failure) -> Failure:
        """Return the reason, followed by the awaited failure that the reason explains."""
        return reason._replace(cause=f"{reason.cause}; then {self.awaiting.cause}") if self.awaiting else reason


def behind_first(own: Failure, first: Failure | None, host: str) -> Failure:
    """Return our failure behind the group's first one, if that was another; `host` is this one."""
    if first is None:
        return own
    # The group repeats what we told it, and what it saw before
    if first.host in (own.host, host):
        _, told, seen = first.cause.partition(f"{own.cause}; ")
        return own._replace(cause=f"{own.cause}; {seen}") if told else own
    return own._replace(cause=f"{first.cause}; then {own.cause}")


def was_ended_by_stop(exit_code: int) -> bool:
    """Return whether a process with this exit code (as in shells) was ended by the stop, not by its own error."""
    return exit_code in _ENDED


def look_at_ranks(ranks: Sequence[RankEnd]) -> tuple[str, bool]:
    """Return the first rank that the stop ended, as a sentence, and whether one ended with its own error."""
    codes = [(128 - rank.code if rank.code < 0 else rank.code, rank) for rank in ranks if rank.code]
    ended = [f"worker rank {rank.rank} on {rank.host} was ended" for code, rank in codes if was_ended_by_stop(code)]
    return ended[0] if ended else "", len(ended) < len(codes)
