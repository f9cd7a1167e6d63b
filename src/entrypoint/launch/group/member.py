"""This host's part in the group of hosts: joining it, saying how the own part ended, hearing how the whole ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from typing import NamedTuple

from launch import signals
from launch.base.errors import SOFTWARE, UNAVAILABLE, LaunchError
from launch.base.outcome import FAILED, STOPPED, Failure, Outcome, Verdict
from launch.group import token as group_token
from launch.group.channel import Channel, NotOfThisJobError
from launch.group.hub import Hub, beat_interval, listen
from launch.group.ledger import End, Ledger, end_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PORT = 7790  # DLC_GROUP_PORT; beside the ports of torchrun (7777) and TensorFlow (2222, 2223, 8890)
HEARTBEAT = 60.0  # seconds of silence after which a host counts as vanished (DLC_HEARTBEAT_TIMEOUT)
JOIN_TIMEOUT = 900.0  # seconds for all hosts to join (DLC_PEER_TIMEOUT)
CONNECT_RETRY = 0.2  # seconds
CONNECT_BOUND = 5.0  # seconds for one attempt
LOOK = 0.01  # seconds


class Membership(NamedTuple):
    """Who is in the group."""

    host: str  # this one
    hosts: tuple[str, ...]  # all of the job
    members: tuple[str, ...]  # those that run the distributed training; the first one is the leader and the hub

    @property
    def leader(self) -> str:
        """The host that the others connect to."""
        return self.members[0]


class Group:
    """A joined group. The thread keeps the connection; the methods are for the launcher's main thread."""

    def __init__(self, membership: Membership, key: bytes, port: int, heartbeat: float) -> None:
        self.membership = membership
        self.facts: dict[str, dict[str, Any]] = {}  # host -> what it said of itself on joining; all of them or none
        self.missing: list[str] = []  # whom the hub still waits for
        self.trouble = "no answer yet"  # what the last attempt to reach the hub met
        self.end: End | None = None
        self._key = key
        self._port = port
        self._heartbeat = heartbeat
        self._own_facts: dict[str, Any] = {}
        self._hub: Hub | None = None
        self._outbox: list[dict[str, Any]] = []
        self._news_read, self._news_write = os.pipe()
        os.set_blocking(self._news_read, False)
        self._wake_read, self._wake_write = os.pipe()
        self._leaving = False
        self._thread = threading.Thread(target=self._keep, daemon=True, name="group")

    @property
    def holds(self) -> bool:
        """Whether this host stays when its own part is done: a member does, for the group's end is its end too."""
        return self.membership.host in self.membership.members

    def fileno(self) -> int:
        """Readable from the moment on when the group's end is known, until `verdict` is asked."""
        return self._news_read

    def verdict(self) -> Verdict | None:
        """How this host has to end because the group has ended; None while it has not."""
        if self.end is None:
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(self._news_read, 1)
        return verdict_of(self.end)

    def report(self, failure: Failure | None, kind: str = FAILED) -> None:
        """Tell the group that this host's part ended, well (None) or badly."""
        self._outbox.append({"kind": "done"} if failure is None else end_of(failure, kind).as_message())
        os.write(self._wake_write, b"x")

    def start(self, facts: dict[str, Any]) -> None:
        """Begin to join; on the leader, open the hub first. Raises LaunchError when its port is taken."""
        self._own_facts = facts
        if self.membership.host == self.membership.leader:
            ledger = Ledger(self.membership.hosts, self.membership.members)
            self._hub = Hub(listen(self._port), self._key, ledger, self._heartbeat)
            self._hub.start()
        self._thread.start()

    def close(self) -> None:
        """Leave. On the leader this first waits (for seconds at most) until every host has heard the end."""
        self._leaving = True
        os.write(self._wake_write, b"x")
        self._thread.join(CONNECT_BOUND + 1)
        if self._hub:
            self._hub.close()
        if not self._thread.is_alive():  # one that hangs in a name look-up keeps its descriptors
            for fd in (self._news_read, self._news_write, self._wake_read, self._wake_write):
                os.close(fd)

    def _keep(self) -> None:
        """The thread: connect, and try again until the hub has proved to be one; then talk until the end or `close`."""
        while self.end is None and not self._leaving:
            channel = None
            try:
                channel = self._connect()
                self._converse(channel)
            except (OSError, NotOfThisJobError) as error:
                self.trouble = str(error)
                if channel and channel.authentic:
                    self._ended(End(False, UNAVAILABLE, self.membership.leader, self._vanished(error)))
                else:
                    select.select([self._wake_read], [], [], CONNECT_RETRY)
            except Exception as error:  # a bug of ours must end the job, not leave it waiting for ever
                cause = f"internal error: {type(error).__name__}: {error}"
                self._ended(End(False, SOFTWARE, self.membership.host, cause))
            finally:
                if channel:
                    channel.socket.close()

    def _connect(self) -> Channel:
        leader = self.membership.leader
        address = "localhost" if leader == self.membership.host else leader
        channel = Channel(socket.create_connection((address, self._port), CONNECT_BOUND), self._key, is_server=False)
        channel.send({"kind": "join", "host": self.membership.host, "facts": self._own_facts})
        return channel

    def _converse(self, channel: Channel) -> None:
        interval = beat_interval(self._heartbeat)
        last_turn = next_beat = time.monotonic()
        while self.end is None and not self._leaving:
            self._wait(channel, interval)
            now = time.monotonic()
            if now - last_turn > self._heartbeat / 2:  # this process stood still: the hub's silence says nothing
                channel.heard_at = now
            last_turn = now
            self._send(channel)
            if now >= next_beat:
                channel.send({"kind": "beat"})
                next_beat = now + interval
            channel.flush()
            for message in channel.receive():
                self._take(message)
            if now - channel.heard_at > self._heartbeat:
                raise TimeoutError(f"nothing heard for {self._heartbeat:g} s (DLC_HEARTBEAT_TIMEOUT)")
        self._say_goodbye(channel)

    def _wait(self, channel: Channel, timeout: float) -> None:
        poll = select.poll()
        poll.register(channel, select.POLLIN | (select.POLLOUT if channel.has_output else 0))
        poll.register(self._wake_read, select.POLLIN)
        if any(fd == self._wake_read for fd, _ in poll.poll(timeout * 1000)):
            os.read(self._wake_read, 4096)

    def _send(self, channel: Channel) -> None:
        while self._outbox:
            channel.send(self._outbox.pop(0))

    def _say_goodbye(self, channel: Channel) -> None:
        """Close so that what was sent last arrives: closing with unread input would reset the connection."""
        self._send(channel)
        channel.socket.settimeout(1.0)
        channel.flush()
        channel.socket.shutdown(socket.SHUT_WR)
        while channel.socket.recv(1 << 16):
            pass

    def _take(self, message: dict[str, Any]) -> None:
        if message["kind"] == "facts":
            self.facts = message["facts"]
        elif message["kind"] == "beat":
            self.missing = message["missing"]
        elif message["kind"] == "end":
            self._ended(End.of_message(message))

    def _ended(self, end: End) -> None:
        self.end = end
        os.write(self._news_write, b"x")

    def _vanished(self, error: Exception) -> str:
        how = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"{self.membership.leader}, which leads the group, vanished: {how}"


def verdict_of(end: End) -> Verdict:
    """What the group's end means for a host."""
    if end.ok:
        return Verdict(Outcome(0))
    where = "" if end.cause.startswith(end.host) else f" on {end.host}"
    failure = Failure(
        cause=f"the job failed{where}: {end.cause}",
        host=end.host,
        exit_code=end.exit_code or 1,
        last_lines=end.last_lines,
    )
    return Verdict(Outcome(failure.exit_code, failure), end.kind)


def join(
    membership: Membership,
    facts: dict[str, Any],
    environ: Mapping[str, str],
    *,
    port: int = PORT,
    timeout: float = JOIN_TIMEOUT,
    heartbeat: float = HEARTBEAT,
) -> Group:
    """Join the group with `facts` about this host, and come back when all hosts have: `facts` of each are known then.

    Raises LaunchError (UNAVAILABLE) naming the hosts that did not join within `timeout` seconds, and StopRequested. The
    others are told, so that the job ends on all of them.
    """
    group = Group(membership, group_token.derive(environ, membership.hosts), port, heartbeat)
    group.start(facts)
    deadline = time.monotonic() + timeout
    try:
        while not group.facts:
            if group.end:
                raise LaunchError(group.end.exit_code or UNAVAILABLE, verdict_of(group.end).outcome.cause)
            if time.monotonic() >= deadline:
                raise _not_joined(group, port, timeout)
            signals.sleep(LOOK)
    except LaunchError as error:
        group.report(Failure(str(error), host=membership.host, exit_code=error.exit_code))
        group.close()
        raise
    except signals.StopRequested as stop:
        group.report(Failure(str(stop), host=membership.host, exit_code=128 + stop.signum), STOPPED)
        group.close()
        raise
    return group


def _not_joined(group: Group, port: int, timeout: float) -> LaunchError:
    if group.missing:
        what, found = f"{', '.join(group.missing)} did not join the job within {timeout:g} s", ""
    else:
        leader = group.membership.leader
        what, found = f"{leader} could not be reached on port {port} within {timeout:g} s", group.trouble
    return LaunchError(
        UNAVAILABLE,
        what,
        found=found,
        remedy="see those hosts' logs, let the hosts reach each other on every port, or raise DLC_PEER_TIMEOUT",
    )
