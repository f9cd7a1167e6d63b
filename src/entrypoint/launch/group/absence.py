"""Whether the launcher at the other end of a broken connection is gone, or only out of reach.

A machine that answers and refuses a port on which the launcher listens says that the launcher is gone: its own kernel
knows. Silence, no route and any other error say nothing; then the heartbeat's time has to pass.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket

GONE_AFTER = 10.0  # seconds of nothing but refusals after which a launcher is given up
LONGEST_GAP = 2.0  # seconds between two refusals that count; longer: this process stood still
PROBE_INTERVAL = 0.5  # seconds
PROBE_BOUND = 3.0  # seconds without an answer
BACKLOG = 16


class Refusals:
    """An unbroken row of them."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._last = float("inf")

    def add(self, now: float) -> None:
        """One more."""
        self._seconds += max(0.0, min(now - self._last, LONGEST_GAP))
        self._last = now

    def end(self) -> None:
        """Something else came of it."""
        self._seconds, self._last = 0.0, float("inf")

    @property
    def are_enough(self) -> bool:
        """Whether the launcher is gone."""
        return self._seconds >= GONE_AFTER


class LifeSign:
    """A port of a member's on which it listens and takes nothing in, as long as it lives."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def open(self, connection: socket.socket) -> list[str | int] | None:
        """[address, port], the address being the one that this connection comes from; None where it cannot be."""
        with contextlib.suppress(OSError):
            address = connection.getsockname()[0]
            if self._socket is not None and self._socket.getsockname()[0] != address:
                self.close()
            if self._socket is None:
                self._socket = socket.create_server((address, 0), family=connection.family, backlog=BACKLOG)
                self._socket.setblocking(False)
            return [str(address), int(self._socket.getsockname()[1])]
        return None

    def clear(self) -> None:
        """Hang up on who has come, so that there is room for the next one."""
        with contextlib.suppress(OSError):
            while self._socket is not None:
                self._socket.accept()[0].close()

    def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Absence:
    """The hub's: a host whose connection broke, and which has not come back yet."""

    def __init__(self, how: str, since: float, sign: tuple[str, int] | None) -> None:
        """`how` it broke; `sign` is where its launcher listens while it lives, None where that cannot be asked."""
        self.how, self.since = how, since
        self._sign = sign
        self._refusals = Refusals()
        self._probe: socket.socket | None = None
        self._begun = self._next = since

    @property
    def is_gone(self) -> bool:
        """Whether its launcher is."""
        return self._refusals.are_enough

    def look(self, now: float) -> None:
        """See what came of the last question and ask again; to be called at least every PROBE_INTERVAL."""
        if self._sign is None or now < self._next:
            return
        self._next = now + PROBE_INTERVAL
        if self._probe is not None:
            self._note(self._answer(), now)
        if self._probe is None:
            self._begun = now
            self._note(self._ask(self._sign), now)

    def close(self) -> None:
        """It came back, or is given up."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _ask(self, sign: tuple[str, int]) -> int:
        self._probe = socket.socket(socket.AF_INET6 if ":" in sign[0] else socket.AF_INET)
        self._probe.setblocking(False)
        return self._probe.connect_ex(sign)

    def _answer(self) -> int:
        poll = select.poll()
        poll.register(self._probe or -1, select.POLLOUT)
        if not poll.poll(0) or self._probe is None:
            return errno.EINPROGRESS
        return self._probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def _note(self, result: int, now: float) -> None:
        if result == errno.EINPROGRESS and now - self._begun < PROBE_BOUND:
            return
        self.close()
        if result == errno.ECONNREFUSED:
            self._refusals.add(now)
        else:
            self._refusals.end()
