"""Who may take which id where the first comer gets the next one: the table that training rank 0 keeps. Pure.

An id is leased to one consumer, and done when that consumer took it. A consumer that is gone gives back what it had
not taken, or ends everybody's epoch, by choice.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

WHEN_LOST = ("fail", "give_back")


class Grant(NamedTuple):
    """The answer to a consumer that asks for more: its next ids; over: there will be none any more."""

    ids: tuple[int, ...] = ()
    over: bool = False


class Leases:
    """The ids of one epoch."""

    def __init__(self, ids: Iterable[int], when_lost: str = "fail") -> None:
        self._ids = iter(ids)
        self._back: list[int] = []  # given back: they go out first
        self._leased: dict[int, set[int]] = {}
        self.when_lost = when_lost

    def grant(self, consumer: int, most: int) -> Grant | None:
        """None: nothing now, but a consumer that is lost may yet give something back."""
        found: list[int] = []
        while len(found) < most:
            id_ = heapq.heappop(self._back) if self._back else next(self._ids, None)
            if id_ is None:
                break
            found.append(id_)
        if found:
            self._leased.setdefault(consumer, set()).update(found)
            return Grant(tuple(found))
        if self.when_lost == "give_back" and any(ids for other, ids in self._leased.items() if other != consumer):
            return None
        return Grant(over=True)

    def done(self, consumer: int, ids: Iterable[int]) -> None:
        """Raises KeyError for an id that the consumer does not hold."""
        held = self._leased.get(consumer, set())
        for id_ in ids:
            held.remove(id_)

    def gone(self, consumer: int) -> None:
        """The consumer left, or is dead: what it held and did not take goes out again."""
        for id_ in self._leased.pop(consumer, set()):
            heapq.heappush(self._back, id_)
