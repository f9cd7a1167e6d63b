"""What is known of the group's hosts, and when that means that the group has ended: pure bookkeeping."""

from __future__ import annotations

from typing import NamedTuple

from launch.base.errors import UNAVAILABLE
from launch.base.outcome import FAILED, Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

LONGEST_TEXT = 4000  # characters of a cause, and of the last lines, that travel to the other hosts


class End(NamedTuple):
    """How the group ended, as every host is told."""

    ok: bool
    exit_code: int = 0
    host: str = ""  # the host that failed first
    cause: str = ""
    last_lines: tuple[str, ...] = ()
    kind: str = FAILED  # of a bad end: FAILED, STOPPED, HUNG

    def as_message(self) -> dict[str, Any]:
        """For the channel."""
        return {"kind": "end", "end": self._asdict()}

    @staticmethod
    def of_message(message: dict[str, Any]) -> End:
        """The other way round."""
        fields = message["end"]
        return End(**{**fields, "last_lines": tuple(fields["last_lines"])})


def end_of(failure: Failure, kind: str) -> End:
    """The group's end as one host's failure makes it."""
    lines = "\n".join(failure.last_lines)[-LONGEST_TEXT:]
    last_lines = tuple(lines.split("\n")) if lines else ()
    return End(False, failure.exit_code, failure.host, failure.cause[:LONGEST_TEXT], last_lines, kind)


class Ledger:
    """Kept by the hub. `members` run the distributed training; the other `hosts` serve it (data hosts, say).

    The group has ended well when every member is done. It has failed when any host failed or vanished before it said
    that it was done: a job needs all its hosts.
    """

    def __init__(self, hosts: Iterable[str], members: Iterable[str]) -> None:
        self.hosts = frozenset(hosts)
        self.members = frozenset(members)
        self.facts: dict[str, dict[str, Any]] = {}  # of the hosts that joined
        self.done: set[str] = set()
        self.end: End | None = None

    @property
    def missing(self) -> list[str]:
        """Hosts that have not joined."""
        return sorted(self.hosts - self.facts.keys())

    def join(self, host: str, facts: dict[str, Any]) -> str:
        """Take a host in; the reason for a refusal, empty when it is welcome."""
        if host not in self.hosts:
            return f"{host} is none of this job's hosts"
        if host in self.facts:
            return f"{host} has joined already: two hosts use one name"
        self.facts[host] = facts
        return ""

    def finished(self, host: str) -> None:
        """A host's part ended well."""
        self.done.add(host)
        if self.end is None and self.members <= self.done:
            self.end = End(True)

    def failed(self, end: End) -> None:
        """A host's part ended badly; the first one counts."""
        self.end = self.end or end

    def lost(self, host: str, how: str) -> None:
        """The connection to a host is gone."""
        if host not in self.done:
            self.failed(End(False, UNAVAILABLE, host, f"{host} vanished: {how}"))
