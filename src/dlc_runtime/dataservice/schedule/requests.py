"""Which server is asked for which batch: a consumer's state between its servers and its training loop. Pure.

Every batch has an id. It is requested from one server at a time. If that server is silent for long, another is asked
too, and the first answer counts. A server that answers other requests meanwhile is busy, not silent. It owes an
answer to each request until it answers or is lost; so a lost server costs its unanswered requests only.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

# After so many servers were lost while they worked on an id, the id is held to be the cause.
MOST_LOST_SERVERS = 5
# Another server is asked when an answer takes so many times longer than usual.
SLOWER_THAN_USUAL = 3
# That may work on one id at a time.
MOST_SERVERS = 3


class Request(NamedTuple):
    """Send the request for `id` to `server`."""

    server: int
    id: int


class LateRequest(NamedTuple):
    """An id that nobody has answered for long."""

    id: int
    servers: tuple[int, ...]
    since: float


class RequestQueue:
    """The ids on their way to a consumer; `ordered`: they come out in the order in which they went in.

    At most `most` ids are requested or held at a time, `most_each` of them from one server; both may be changed.
    """

    def __init__(self, ordered: bool, most: int, most_each: int, elsewhere_after: float) -> None:
        self.ordered, self.most, self.most_each, self.elsewhere_after = ordered, most, most_each, elsewhere_after
        # id -> (server, when) of each request, in the order of the epoch.
        self.waiting: dict[int, list[tuple[int, float]]] = {}
        # Arrived, not yet taken; in order of arrival.
        self.held: dict[int, Any] = {}
        # Server -> ids that it has yet to answer, oldest first.
        self.owed: dict[int, dict[int, None]] = {}
        # Servers that took long.
        self.slow: set[int] = set()
        self._answered_at: dict[int, float] = {}
        # Server -> seconds that its last answers took.
        self._pace: dict[int, float] = {}
        # Whether `add` brings no more ids.
        self.is_complete = True
        self._lost_servers: dict[int, int] = {}
        self._order: deque[int] = deque()
        self._sources: deque[Iterator[int]] = deque()
        self._peeked: int | None = None
        self._look_again_at = 0.0

    def add(self, ids: Iterable[int]) -> None:
        self._sources.append(iter(ids))

    def add_server(self, server: int) -> None:
        self.owed.setdefault(server, {})
        self._look_again_at = 0.0

    def drop_server(self, server: int) -> int | None:
        """Request again what the server owed. Returns an id that lost too many servers, if there is one.

        Only the oldest id counts as a cause: a server works on its requests in the order in which they came.
        """
        owed = [id_ for id_ in self.owed.pop(server, {}) if id_ in self.waiting]
        self.slow.discard(server)
        self._answered_at.pop(server, None)
        self._pace.pop(server, None)
        self._look_again_at = 0.0
        for id_ in owed:
            self.waiting[id_] = [request for request in self.waiting[id_] if request[0] != server]
        if not owed:
            return None
        self._lost_servers[owed[0]] = self._lost_servers.get(owed[0], 0) + 1
        return owed[0] if self._lost_servers[owed[0]] >= MOST_LOST_SERVERS else None

    def add_answer(self, server: int, id_: int, batch: Any, now: float) -> bool:
        """Keep the batch and return True, unless another server's answer came before it."""
        requested = self.waiting.pop(id_, None)
        asked = [when for other, when in requested or () if other == server]
        took = now - max(self._answered_at.get(server, 0.0), *asked) if asked else 0.0
        self._pace[server] = max(took, self._pace.get(server, 0.0) / 2)
        self._answered_at[server] = now
        self.owed.get(server, {}).pop(id_, None)
        self.slow.discard(server)
        if requested is None:
            return False
        self._lost_servers.pop(id_, None)
        self.held[id_] = batch
        return True

    def next_id(self) -> int | None:
        """Return the id whose batch is to be taken next, None while it has not arrived."""
        if self.ordered:
            return self._order[0] if self._order and self._order[0] in self.held else None
        return next(iter(self.held), None)

    def take(self, id_: int) -> Any:
        """Return the batch of the id that `next_id` named."""
        if self.ordered:
            self._order.popleft()
        return self.held.pop(id_)

    @property
    def is_empty(self) -> bool:
        """Return whether all that was added came out."""
        return not (self.waiting or self.held) and self._next_new_id() is None

    @property
    def is_over(self) -> bool:
        return self.is_complete and self.is_empty

    def next_requests(self, now: float) -> list[Request]:
        """Return the requests to send now."""
        found = self._requests_elsewhere(now) if now >= self._look_again_at else []
        while len(self.waiting) + len(self.held) < self.most:
            id_ = self._next_new_id()
            server = None if id_ is None else self._least_loaded()
            if id_ is None or server is None:
                break
            self._peeked = None
            self.waiting[id_] = []
            if self.ordered:
                self._order.append(id_)
            found.append(self._request(server, id_, now))
        return found

    def first_late(self, now: float, seconds: float) -> LateRequest | None:
        """Return the first id in order that was requested `seconds` ago or more, and is not answered."""
        for id_, asked in self.waiting.items():
            if asked and now - asked[0][1] >= seconds:
                return LateRequest(id_, tuple(server for server, _ in asked), asked[0][1])
        return None

    def _next_new_id(self) -> int | None:
        while self._peeked is None and self._sources:
            self._peeked = next(self._sources[0], None)
            if self._peeked is None:
                self._sources.popleft()
        return self._peeked

    def _requests_elsewhere(self, now: float) -> list[Request]:
        """Request again from other servers what a lost or slow one owes; oldest first, as the order waits."""
        self._look_again_at = now + self.elsewhere_after / 8
        found = []
        for id_, asked in self.waiting.items():
            if asked and (len(asked) >= MOST_SERVERS or not self._is_silent(*asked[-1], now)):
                continue
            # What was lost is in the window already: it may exceed what is asked from one server.
            server = self._least_loaded(but=[server for server, _ in asked], full=not asked)
            if server is not None:
                self.slow.update(other for other, _ in asked)
                found.append(self._request(server, id_, now))
        return found

    def _is_silent(self, server: int, asked: float, now: float) -> bool:
        """Return whether the server takes longer than it may, and than its own pace explains."""
        waited = now - max(asked, self._answered_at.get(server, 0.0))
        return waited >= max(self.elsewhere_after, SLOWER_THAN_USUAL * self._pace.get(server, 0.0))

    def _request(self, server: int, id_: int, now: float) -> Request:
        self.waiting[id_].append((server, now))
        self.owed[server][id_] = None
        return Request(server, id_)

    def _least_loaded(self, but: Collection[int] = (), full: bool = False) -> int | None:
        """Return the server that owes least; a slow one only if all are slow."""
        best, least = None, (True, self.most_each)
        for server, owed in self.owed.items():
            load = (server in self.slow, len(owed))
            if server not in but and (len(owed) < self.most_each or full) and (best is None or load < least):
                best, least = server, load
        return best
