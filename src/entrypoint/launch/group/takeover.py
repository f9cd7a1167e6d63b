"""Data hosts that fail while others of their group go on serving: which failures the job bears. Pure bookkeeping.

Whether another host can take over is something that only the data hosts' program knows. It says so by a file, as
`dlc_runtime.dataservice.serve` does, or the user says it for any program (DLC_DATA_HOSTS_MAY_FAIL=1).
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from launch.group.ledger import End, Rules

LOOK = 1.0  # seconds between looks for the file


class Losses:
    """Kept by the hub's ledger: the data hosts that are gone and made up for."""

    def __init__(self, rules: Rules) -> None:
        self.gone: dict[str, End] = {}  # in the order in which they failed
        self.news: list[str] = []  # that nobody has printed yet
        self._groups = rules.data_groups
        self._any_program = rules.any_data_program
        self._replaceable: set[str] = set()  # hosts whose program has said that others can take over
        self._vanished: set[str] = set()  # of those that are gone: what came back would serve again

    def replaceable(self, host: str) -> None:
        """The program of this data host says that others of its group can take over from it."""
        self._replaceable.add(host)

    def can_be_borne(self, host: str) -> bool:
        """Whether this is a data host, and what runs there keeps nothing that others lack."""
        return bool(self._group(host)) and (self._any_program or host in self._replaceable)

    def bears(self, host: str, end: End, done: Collection[str], has_vanished: bool = False) -> bool:
        """Whether the job goes on without a host that failed: another one of its group, not `done`, serves."""
        if host not in self.gone:
            others = self._others(host, done)
            if not others or not self.can_be_borne(host):
                return False
            self.gone[host] = end
            lines = [f"the job goes on without {host}, a data host: {end.cause}", *end.last_lines]
            self.news.append("\n  | ".join(lines) + f"\ndlc: what it served is up to {', '.join(others)}")
        if has_vanished:
            self._vanished.add(host)
        return True

    def with_first(self, host: str, end: End, done: Collection[str]) -> End:
        """A failure that ends the job; that of a group's last data host names the first one, and has its code."""
        first = next((self.gone[other] for other in self.gone if other in self._group(host)), None)
        if first is None or self._others(host, done):
            return end
        return first._replace(cause=f"{first.cause}; no data host of its group is left, the last one: {end.cause}")

    def came_back(self, host: str) -> bool:
        """Whether a host that joins had vanished; it serves again."""
        if host not in self._vanished:
            return False
        self._vanished.discard(host)
        del self.gone[host]
        self.news.append(f"{host}, a data host, has come back")
        return True

    def begin_again(self) -> None:
        """All processes start again, on every host that is still there."""
        self.gone = {host: end for host, end in self.gone.items() if host in self._vanished}

    def _group(self, host: str) -> tuple[str, ...]:
        return next((group for group in self._groups if host in group), ())

    def _others(self, host: str, done: Collection[str]) -> list[str]:
        """Of this data host's group, those that may still serve."""
        return [other for other in self._group(host) if other != host and other not in self.gone and other not in done]


class Word:
    """A data host's: has its program made the file that says that others can take over?"""

    def __init__(self, path: str) -> None:
        """`path` is empty where nobody has to say it."""
        self._path = path

    def patience(self, seconds: float) -> float:
        """For how long it need not be looked for."""
        return min(seconds, LOOK) if self._path else seconds

    def has_come(self) -> bool:
        """True once each time that it is made: processes that are started again make it again."""
        if not self._path:
            return False
        try:
            os.unlink(self._path)
        except OSError:
            return False
        return True

    def forget(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
