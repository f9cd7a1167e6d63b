"""Heartbeats and probes: is a launcher that does not answer gone, or only out of reach? Imports nothing of ours.

A machine that answers and refuses a port on which the launcher listens says that the launcher is gone: its own kernel
knows. Silence, no route and any other error say nothing; then the heartbeat's time has to pass.

A connection on which nothing comes is given up before that: after a cut of the network the kernel's next try on it may
be half a minute away, or something on the way has forgotten it, while a new one works at once.

ProgramSignals is what the programs of this host let its launcher hear.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Of nothing but refusals, after which a launcher is given up
GONE_SECONDS = 10.0
# Between two refusals that count; after a longer gap this process stood still
LONGEST_GAP_SECONDS = 2.0
PROBE_INTERVAL_SECONDS = 0.5
# Without an answer
PROBE_SECONDS = 3.0
BACKLOG = 16
# With a thousand hosts, each beat costs a look
LONGEST_BEAT_SECONDS = 10.0
# Missed ones after which a connection is given up for a new one: at most half of a heartbeat's time
QUIET_BEATS = 3


def beat_interval(heartbeat: float) -> float:
    """Return the seconds between beats: at least four are missed before a host counts as vanished."""
    return max(0.02, min(LONGEST_BEAT_SECONDS, heartbeat / 6))


def quiet_bound(heartbeat: float) -> float:
    """Return how long a connection may be silent: at least as long is left to make a new one and hear something."""
    return QUIET_BEATS * beat_interval(heartbeat)


def describe_silence(seconds: float) -> str:
    """Say why a host that has not been heard counts as vanished."""
    return f"nothing heard for {seconds:g} s (DLC_HEARTBEAT_TIMEOUT)"


class HeartbeatTimer:
    """A member's: for how long the coordinator has not been heard, whatever the connection."""

    def __init__(self, heartbeat: float) -> None:
        self._heartbeat = heartbeat
        self._heard_at = self._turn_at = time.monotonic()

    @property
    def is_expired(self) -> bool:
        """Return whether the coordinator has vanished."""
        return time.monotonic() - self._heard_at >= self._heartbeat

    def reset(self, heard_at: float) -> None:
        """Note that the coordinator was heard."""
        self._heard_at = heard_at

    def forgive_pause(self, now: float, busy: float = 0.0) -> bool:
        """Start anew if this process stood still, `busy` seconds aside: ask every beat."""
        stood_still = now - self._turn_at > quiet_bound(self._heartbeat) + busy
        self._turn_at = now
        if stood_still:
            self._heard_at = now
        return stood_still


class ReturningHosts:
    """The coordinator's: hosts of which another launcher has come while the connection of the first one stands.

    A container that was killed may leave such a connection, and two hosts may have been given one name. The next beat
    of the first launcher, or the end of its silent connection, tells them apart.
    """

    def __init__(self) -> None:
        # Host -> when the other launcher came first
        self._since: dict[str, float] = {}

    def is_gone(self, host: str, heard_at: float | None) -> bool:
        """Return whether the first launcher has ended; it was heard last at `heard_at`, None without a connection."""
        since = self._since.setdefault(host, time.monotonic())
        if heard_at is None or heard_at > since:
            del self._since[host]
        return heard_at is None

    def is_open(self, host: str) -> bool:
        """Return whether that cannot be told yet: the other launcher comes again."""
        return host in self._since


class RefusedStreak:
    """An unbroken row of them."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._last = float("inf")

    def add(self, now: float) -> None:
        """Count one more."""
        self._seconds += max(0.0, min(now - self._last, LONGEST_GAP_SECONDS))
        self._last = now

    def reset(self) -> None:
        """Begin anew: an attempt ended otherwise than by a refusal."""
        self._seconds, self._last = 0.0, float("inf")

    @property
    def is_long_enough(self) -> bool:
        """Return whether the launcher is gone."""
        return self._seconds >= GONE_SECONDS


class LivenessPort:
    """A port of a member's on which it listens and takes nothing in, as long as it lives."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def open(self, connection: socket.socket) -> list[str | int] | None:
        """Listen at the address that this connection comes from; return it and the port, None if that fails."""
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
        """Close connections that have come, so that there is room for the next one."""
        with contextlib.suppress(OSError):
            while self._socket is not None:
                self._socket.accept()[0].close()

    def close(self) -> None:
        """Close the port."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class PeerProbe:
    """The coordinator's: a host whose connection broke, and which has not come back yet."""

    def __init__(self, how: str, since: float, sign: tuple[str, int] | None) -> None:
        """Take `how` the connection broke, and where (`sign`) its launcher listens while it lives, if that is known.

        Of a connection that was given up because nothing came, `since` is when something came last.
        """
        self.how, self.since = how, since
        self._sign = sign
        self._refused = RefusedStreak()
        self._probe: socket.socket | None = None
        self._begun = self._next = since

    @property
    def is_gone(self) -> bool:
        """Return whether the host's launcher is gone."""
        return self._refused.is_long_enough

    def advance(self, now: float) -> None:
        """See what came of the last question and ask again; to be called at least every PROBE_INTERVAL_SECONDS."""
        if self._sign is None or now < self._next:
            return
        self._next = now + PROBE_INTERVAL_SECONDS
        if self._probe is not None:
            self._note(self._answer(), now)
        if self._probe is None:
            self._begun = now
            self._note(self._ask(self._sign), now)

    def close(self) -> None:
        """Stop to probe: the host came back, or is given up."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _ask(self, sign: tuple[str, int]) -> int:
        try:
            self._probe = socket.socket(socket.AF_INET6 if ":" in sign[0] else socket.AF_INET)
        except OSError as error:  # no descriptor is left, which says nothing of the other side
            return error.errno or errno.EMFILE
        self._probe.setblocking(False)
        return self._probe.connect_ex(sign)

    def _answer(self) -> int:
        poll = select.poll()
        poll.register(self._probe or -1, select.POLLOUT)
        if not poll.poll(0) or self._probe is None:
            return errno.EINPROGRESS
        return self._probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def _note(self, result: int, now: float) -> None:
        if result == errno.EINPROGRESS and now - self._begun < PROBE_SECONDS:
            return
        self.close()
        if result == errno.ECONNREFUSED:
            self._refused.add(now)
        else:
            self._refused.reset()


# Between looks for the files
FILE_INTERVAL_SECONDS = 1.0


def tell_ended(path: str, hosts: Sequence[str]) -> None:
    """Tell this host's programs which hosts have ended; nothing if nobody asks, or if it cannot be written."""
    with contextlib.suppress(OSError):
        if path and (hosts or os.path.exists(path)):
            with open(f"{path}.part", "w", encoding="utf-8") as file:
                json.dump(list(hosts), file)
            os.replace(f"{path}.part", path)


class ProgramSignals:
    """What the programs of this host say by making files: what they say -> the file."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """Take `files`: the signals that somebody waits for, with the file of each."""
        self._files = files

    def limit_wait(self, seconds: float) -> float:
        """Return for how long the files need not be looked for."""
        return min(seconds, FILE_INTERVAL_SECONDS) if self._files else seconds

    def take(self) -> list[str]:
        """Return each signal once for each time that it is given, and remove its file: new processes give it again."""
        found = []
        for what, path in self._files.items():
            with contextlib.suppress(OSError):
                os.unlink(path)
                found.append(what)
        return found
