"""The hub of the group, on its leader: takes hosts in, tells all of them each other's facts and how the group ended."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time

from launch.base.errors import UNAVAILABLE, LaunchError
from launch.group.channel import Channel, NotOfThisJobError
from launch.group.ledger import End, Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GREETING_BOUND = 10.0  # seconds a new connection has to prove that it belongs to the job
MOST_STRANGERS = 256  # connections that have not proved it yet, at a time
CLOSING_LOOK = 0.05  # seconds between looks at the clock while closing
MOST_REFUSALS_SHOWN = 10  # a port scan must not fill the log
LINGER = 5.0  # seconds to wait at the end for the hosts to have heard it


def listen(port: int) -> socket.socket:
    """A listening socket for IPv6 and IPv4, or IPv4 alone where there is no IPv6. Raises LaunchError."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise LaunchError(
            UNAVAILABLE,
            f"the group's port cannot be opened: {os.strerror(error.errno or 0)}",
            where=f"port {port}",
            remedy="set DLC_GROUP_PORT to a free port, the same on every host",
        ) from error


class Hub(threading.Thread):
    """Serves the group until it ended and every host heard it, or until `close`."""

    def __init__(self, listener: socket.socket, key: bytes, ledger: Ledger, heartbeat: float) -> None:
        super().__init__(daemon=True, name="group hub")
        self.ledger = ledger
        self._listener = listener
        self._key = key
        self._heartbeat = heartbeat
        self._channels: dict[int, Channel] = {}
        self._hosts: dict[Channel, str] = {}
        self._refused = 0
        self._told_facts = False
        self._told_end = False
        self._closing_at = float("inf")
        self._wake_read, self._wake_write = os.pipe()

    def close(self) -> None:
        """Stop serving, at the latest LINGER seconds from now; comes back when it did."""
        self._closing_at = time.monotonic() + LINGER
        os.write(self._wake_write, b"x")
        self.join(LINGER + 1)
        if not self.is_alive():  # closed here, not by the thread: it may end before the byte above is written
            os.close(self._wake_read)
            os.close(self._wake_write)

    def run(self) -> None:
        """The thread. Whatever happens in it, the hosts find their connections closed, not silent for ever."""
        try:
            self._serve_all()
        finally:
            for channel in self._channels.values():
                channel.socket.close()
            self._listener.close()

    def _serve_all(self) -> None:
        """One turn per event or beat."""
        interval = beat_interval(self._heartbeat)
        last_turn = next_beat = time.monotonic()
        while not self._is_over():
            for fd, _ in self._poll(interval):
                self._serve(fd)
            now = time.monotonic()
            if now - last_turn > self._heartbeat / 2:
                self._forgive(now)
            last_turn = now
            self._drop_silent(now)
            if now >= next_beat:
                self._tell({"kind": "beat", "missing": self.ledger.missing})
                next_beat = now + interval
            self._tell_news()

    def _is_over(self) -> bool:
        """Closing, and every host has heard the end and left, or had its time to."""
        return self._closing_at < float("inf") and (not self._hosts or time.monotonic() >= self._closing_at)

    def _poll(self, timeout: float) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        for channel in self._channels.values():
            poll.register(channel, select.POLLIN | (select.POLLOUT if channel.has_output else 0))
        return poll.poll(min(timeout, CLOSING_LOOK if self._closing_at < float("inf") else timeout) * 1000)

    def _serve(self, fd: int) -> None:
        if fd == self._wake_read:
            os.read(fd, 1)
            return
        if fd == self._listener.fileno():
            self._accept()
            return
        channel = self._channels[fd]
        try:
            channel.flush()
            for message in channel.receive():
                self._take(channel, message)
        except (NotOfThisJobError, KeyError, TypeError, ValueError) as error:
            self._refused += 1
            if self._refused <= MOST_REFUSALS_SHOWN:
                print(f"dlc: refused a connection from {_peer(channel)}: {error}", file=sys.stderr, flush=True)
            self._drop(channel, "it sent what does not belong to this job")
        except OSError as error:
            self._drop(channel, f"{error.strerror or error} before it said how its part ended")

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptors left: the next turn tries again
            return
        if len(self._channels) - len(self._hosts) >= MOST_STRANGERS:
            sock.close()
            return
        channel = Channel(sock, self._key, is_server=True)
        self._channels[sock.fileno()] = channel

    def _take(self, channel: Channel, message: dict[str, Any]) -> None:
        kind, host = message["kind"], self._hosts.get(channel)
        if kind == "join" and host is None:
            refusal = self.ledger.join(message["host"], message["facts"])
            if refusal:
                channel.send(End(False, UNAVAILABLE, message["host"], refusal).as_message())
            else:
                self._hosts[channel] = message["host"]
                channel.send({"kind": "beat", "missing": self.ledger.missing})
        elif kind == "done" and host:
            self.ledger.finished(host)
        elif kind == "end" and host:
            self.ledger.failed(End.of_message(message))

    def _tell_news(self) -> None:
        if not self._told_facts and not self.ledger.missing:
            self._told_facts = True
            self._tell({"kind": "facts", "facts": self.ledger.facts})
        if not self._told_end and self.ledger.end:
            self._told_end = True
            self._tell(self.ledger.end.as_message())

    def _tell(self, message: dict[str, Any]) -> None:
        for channel in list(self._hosts):
            channel.send(message)
            try:
                channel.flush()
            except OSError:
                self._drop(channel, "its connection broke")

    def _forgive(self, now: float) -> None:
        """This process itself stood still (a paused container): the others' silence says nothing."""
        for channel in self._channels.values():
            channel.heard_at = now

    def _drop_silent(self, now: float) -> None:
        for channel in list(self._channels.values()):
            if channel in self._hosts:
                if now - channel.heard_at > self._heartbeat:
                    self._drop(channel, f"nothing heard for {self._heartbeat:g} s (DLC_HEARTBEAT_TIMEOUT)")
            elif now - channel.opened_at > GREETING_BOUND:
                self._drop(channel, "")

    def _drop(self, channel: Channel, how: str) -> None:
        host = self._hosts.pop(channel, None)
        if self._channels.pop(channel.fileno(), None) is not None:
            channel.socket.close()
        if host and not self._told_end:
            self.ledger.lost(host, how)


def beat_interval(heartbeat: float) -> float:
    """Seconds between beats: at least four are missed before a host counts as vanished."""
    return max(0.02, min(1.0, heartbeat / 5))


def _peer(channel: Channel) -> str:
    try:
        return str(channel.socket.getpeername()[0])
    except OSError:
        return "a peer that is gone"
