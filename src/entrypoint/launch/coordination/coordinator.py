"""The coordinator, on the group's leader: takes hosts in, tells each the others' facts and the group's state.

All that a host needs is in one message, the state, sent after every change and as the beat: a host whose connection
broke and came back has missed nothing.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time

from dlc_channel.channel import NotOfThisJobError, PendingConnections
from launch import signals
from launch.base.errors import FAILED, STOPPED, UNAVAILABLE
from launch.coordination import failure_detector
from launch.coordination.membership import MOST_NAMED, GroupEnd, Membership, list_hosts, pack_json
from launch.coordination.sockets import SAME_TOKEN, UnprovedClaims, accept_connection, count_seats, group_channel
from launch.discovery import host_addresses
from launch.supervision.child_process import raise_open_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Any

    from dlc_channel.channel import Channel


# Between looks at the clock while closing
CLOSING_LOOK_SECONDS = 0.05
# A port scan must not fill the log
MOST_REFUSALS_SHOWN = 10
# After a failure or a stop, for the hosts to have heard it: a stop leaves little time
LINGER_SECONDS = 5.0
# Hosts at a time
MOST_PROBES = 64


class Coordinator(threading.Thread):
    """Serves the group until it ended and every host heard it, or until `close`."""

    def __init__(self, listeners: Sequence[socket.socket], key: bytes, group: Membership, heartbeat: float) -> None:
        super().__init__(daemon=True, name="group hub")
        self.membership = group
        self._id = os.urandom(8).hex()
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._key = key
        self._heartbeat = heartbeat
        self._channels: dict[int, Channel] = {}
        self._pending = PendingConnections(count_seats(len(group.rules.hosts), raise_open_files()))
        self._hosts: dict[Channel, str] = {}
        # By host
        self._away: dict[str, failure_detector.PeerProbe] = {}
        # host -> a generation, the first of its ranks that ended with 0
        self._left: dict[str, tuple[int, str]] = {}
        self._returns = failure_detector.ReturningHosts()
        # host -> where its launcher listens while it lives
        self._liveness_ports: dict[str, tuple[str, int]] = {}
        # To be a host of the job that is not here
        self.claims = UnprovedClaims()
        # An error of ours that ended the thread
        self.failure = ""
        self._refused = 0
        self._facts_sent = False
        # The state that the hosts know
        self._told = ""
        self._closing_at = float("inf")
        # And then no longer for data hosts that are away
        self._linger_until = float("inf")
        self._wake_read, self._wake_write = os.pipe()
        self._epoll = select.epoll()
        for fd in (*self._listeners, self._wake_read):
            self._epoll.register(fd, select.EPOLLIN)

    def close(self, linger: float = LINGER_SECONDS) -> None:
        """Stop serving when all hosts heard the end; comes back when it did.

        At the latest in `linger` seconds; if the group has ended well and nobody asked for a stop, in a heartbeat's
        time: a host to which the way was cut for a while must not take its leader's leaving for a failure. But a data
        host that others take over from is most likely dead, and holds up nobody.
        """
        say_at = self._linger_until = time.monotonic() + LINGER_SECONDS
        self._closing_at = time.monotonic() + (max(linger, self._heartbeat) if self._has_ended_well else linger)
        os.write(self._wake_write, b"x")
        while self.is_alive() and time.monotonic() < self._closing_at + 1:
            self.join(CLOSING_LOOK_SECONDS)
            if signals.received():
                self._closing_at = min(self._closing_at, time.monotonic() + linger)
            # Copies: the thread changes them
            awaited = {*list(self._hosts.values()), *list(self._away)} - {self.membership.rules.leader}
            if awaited and say_at <= time.monotonic() < self._closing_at:
                say_at = float("inf")
                text = f"dlc: waiting for {list_hosts(sorted(awaited))} to hear that the job has ended"
                print(text, file=sys.stderr, flush=True)
        # Closed here, not by the thread: it may end before the byte above is written
        if not self.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def run(self) -> None:
        """Run the thread. Whatever happens in it, the hosts find their connections closed, not silent for ever."""
        try:
            self._serve_all()
        except Exception as error:  # a bug of ours: this host's member says so, and no host is said to have vanished
            self.failure = f"internal error where the hosts meet: {type(error).__name__}: {error}"
        finally:
            for channel in self._channels.values():
                channel.socket.close()
            for listener in self._listeners.values():
                listener.close()
            for probe in self._away.values():
                probe.close()
            self._epoll.close()
            if self._refused > MOST_REFUSALS_SHOWN:
                print(f"dlc: refused {self._refused} connections of strangers in all", file=sys.stderr, flush=True)

    def _serve_all(self) -> None:
        """Take one turn per event or beat."""
        interval = failure_detector.beat_interval(self._heartbeat)
        last_turn = next_beat = time.monotonic()
        while not self._is_over():
            for fd, events in self._epoll.poll(self._patience(next_beat)):
                self._serve(fd, events)
            now = time.monotonic()
            if now - last_turn > failure_detector.quiet_bound(self._heartbeat):
                self._forgive(now)
            last_turn = now
            if now >= next_beat:
                self._drop_silent(now)
                self._told = ""
                next_beat = now + interval
            self._look_for_the_gone(now)
            self._tell_news()

    def _patience(self, next_beat: float) -> float:
        """Return the seconds to wait for something to come in."""
        if self._closing_at < float("inf"):
            return CLOSING_LOOK_SECONDS
        wait = max(0.0, next_beat - time.monotonic())
        return min(wait, failure_detector.PROBE_INTERVAL_SECONDS) if self._away else wait

    def _is_over(self) -> bool:
        """Tell whether the group closes, and every host has heard the end and left, or had its time to."""
        if self._closing_at == float("inf"):
            return False
        now = time.monotonic()
        is_lost = now >= self._linger_until and all(map(self.membership.losses.is_tolerable, self._away))
        return (not self._hosts and (not self._away or is_lost)) or now >= self._closing_at

    @property
    def _has_ended_well(self) -> bool:
        """Return whether the group ended well, and not because of a stop."""
        end = self.membership.end
        return end is not None and end.ok and end.kind != STOPPED

    # What comes in

    def _serve(self, fd: int, events: int) -> None:
        if fd == self._wake_read:
            os.read(fd, 1)
        elif fd in self._listeners:
            self._accept(self._listeners[fd])
        elif fd in self._channels:
            self._converse(self._channels[fd], events)

    def _converse(self, channel: Channel, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                self._flush(channel)
            if events & ~select.EPOLLOUT:
                for message in channel.receive():
                    self._take(channel, message)
                self._flush(channel)
        except (NotOfThisJobError, KeyError, TypeError, ValueError) as error:
            self._refuse(channel, error)
        except OSError as error:
            self._drop(channel, f"{error.strerror or error} before it said how its part ended")

    def _accept(self, listener: socket.socket) -> None:
        accepted = accept_connection(listener)
        # No descriptor is left: a connection that has proved nothing makes room
        if accepted is None:
            self._close(self._pending.to_evict())
            return
        sock, peer = accepted
        channel = group_channel(sock, self._key, is_server=True)
        self._channels[sock.fileno()] = channel
        self._epoll.register(channel, select.EPOLLIN | select.EPOLLOUT)
        self._close(self._pending.add(channel, peer))

    def _take(self, channel: Channel, message: dict[str, Any]) -> None:
        kind, host = message["kind"], self._hosts.get(channel)
        if kind == "join" and host is None:
            self._join(channel, message)
        elif host is None:
            raise NotOfThisJobError("it has not joined")
        elif kind in ("ready", "done", "serves"):
            known = self.membership
            take = {"ready": known.note_ready, "done": known.note_done, "serves": known.note_serving}[kind]
            take(host, message["generation"])
        elif kind == "end":
            end = self._in_context(GroupEnd.of_message(message["end"]))
            self.membership.note_failure(host, end, message["generation"])
        elif kind == "stopping":
            self.membership.note_stopping(host)
        elif kind == "ended early":
            self._left[host] = (self.membership.generation, message["left"])
            self.membership.note_ended_by_stop(message["by stop"])
        elif kind == "replaceable":
            self.membership.losses.note_replaceable(host)
        elif kind == "bye":
            # It knows how the group ended, or needs to know no more
            del self._hosts[channel]
            self.membership.left.add(host)

    def _in_context(self, end: GroupEnd) -> GroupEnd:
        """Add to a failure what it may follow from: hosts that are away, parts and ranks that had ended."""
        group = self.membership
        if end.kind != FAILED or group.stopped_host:
            return end
        away = f"the connection to {list_hosts(sorted(self._away))} broke" if self._away else ""
        known = group.done | {end.host}
        ranks = [who for host, (number, who) in self._left.items() if number == group.generation and host not in known]
        ended = [
            f"the part of {list_hosts(sorted(group.done))}" if group.done else "",
            list_hosts(list(filter(None, ranks))),
        ]
        done = " and ".join(f"{who} had ended with code 0" for who in ended if who)
        before = " and ".join(filter(None, (away, done)))
        return end._replace(cause=f"{end.cause}; before that {before}") if before else end

    def _join(self, channel: Channel, message: dict[str, Any]) -> None:
        host = message["host"]
        self._pending.discard(channel)
        told = message["facts"]
        facts = None if told is None else {**told, "address": _peer_address(channel)}
        is_lost = True
        if self.membership.is_another_launcher(host, message["instance"]):
            heard_at = next((known.heard_at for known, name in self._hosts.items() if name == host), None)
            is_lost = self._returns.is_gone(host, heard_at)
            if self._returns.is_open(host):
                self._close(channel)
                return
        refusal = self.membership.join(host, message["instance"], facts, is_lost)
        if message["hub"] not in ("", self._id):
            refusal = "the launcher that leads the group was started again"
        if refusal:
            end = GroupEnd(False, UNAVAILABLE, host, refusal)
            channel.send({**self._state(), "end": end.as_message()})
            return
        for old in [known for known, name in self._hosts.items() if name == host]:
            del self._hosts[old]
            self._close(old)
        self._hosts[channel] = host
        self._await_no_more(host)
        self._note_liveness_port(channel, host, message.get("life sign"))
        if self._facts_sent:
            channel.send(self._facts())
        channel.send(self._state())

    # What goes out

    def _state(self) -> dict[str, Any]:
        group = self.membership
        cause = group.restart_cause()
        return {
            "kind": "state",
            "hub": self._id,
            "missing": group.missing[:MOST_NAMED],
            "missing count": len(group.missing),
            "generation": group.generation,
            "ready": group.all_ready,
            "restart": cause.as_message() if cause else None,
            "stopped": group.stopped_host,
            "ended by stop": group.ended_by_stop,
            "borne": list(group.losses.gone),
            "through": group.through,
            "end": group.end.as_message() if group.end else None,
        }

    def _facts(self) -> dict[str, Any]:
        """Of a host that left, without its address: it may come back at another one, and is then found by its name."""
        group = self.membership
        known = {host: {**told, "address": ""} if host in group.left else told for host, told in group.facts.items()}
        return {"kind": "facts", "packed": pack_json(known)}

    def _tell_news(self) -> None:
        if not self._facts_sent and self.membership.has_met:
            self._facts_sent = True
            self._tell(self._facts())
        group = self.membership
        state = f"{group.generation} {group.all_ready} {group.stopped_host} {group.ended_by_stop} {group.end}"
        news = f"{state} {list(group.losses.gone)} {group.done - set(group.rules.members)}"
        if news != self._told:
            self._told = news
            self._tell(self._state())
        while group.losses.news:
            print(f"dlc: warning: {group.losses.news.pop(0)}", file=sys.stderr, flush=True)

    def _tell(self, message: dict[str, Any]) -> None:
        for channel in list(self._hosts):
            channel.send(message)
            try:
                self._flush(channel)
            except OSError as error:
                self._drop(channel, f"{error.strerror or error} before it said how its part ended")

    def _flush(self, channel: Channel) -> None:
        had_output = channel.wants_to_write
        channel.flush()
        if had_output and channel.fileno() in self._channels:
            self._epoll.modify(channel, select.EPOLLIN | (select.EPOLLOUT if channel.wants_to_write else 0))

    # Who goes

    def _forgive(self, now: float) -> None:
        """Start all clocks anew: this process stood still (a paused container), so the others' silence says nothing."""
        for channel in self._channels.values():
            channel.heard_at = now
        for probe in self._away.values():
            probe.since = now

    def _drop_silent(self, now: float) -> None:
        """Give up silent connections, for which a host makes a new one, and hosts that have not come back."""
        quiet = failure_detector.quiet_bound(self._heartbeat)
        for channel in [known for known in self._hosts if now - known.heard_at > quiet]:
            self._drop(channel, failure_detector.describe_silence(self._heartbeat), channel.heard_at)
        for channel in self._pending.overdue(now):
            self._close(channel)
        for host, probe in list(self._away.items()):
            if now - probe.since >= self._heartbeat:
                self._await_no_more(host)
                self.membership.note_lost(host, probe.how)

    def _look_for_the_gone(self, now: float) -> None:
        """Give up hosts whose machine says that their launcher has ended. If many are away, the network is to blame."""
        for host, probe in list(self._away.items())[:MOST_PROBES]:
            probe.advance(now)
            if probe.is_gone:
                self._await_no_more(host)
                refused_for = f"refused for {failure_detector.GONE_SECONDS:g} s"
                self.membership.note_lost(host, f"{probe.how}, and its launcher is gone: {refused_for}")

    def _await_no_more(self, host: str) -> None:
        """Stop to wait for a host that came back, or is given up."""
        probe = self._away.pop(host, None)
        if probe:
            probe.close()

    def _note_liveness_port(self, channel: Channel, host: str, told: list[Any] | None) -> None:
        """Note where the host's launcher listens, unless something between us hides its address."""
        self._liveness_ports.pop(host, None)
        if told and host_addresses.plain_address(str(told[0])) == _peer_address(channel):
            self._liveness_ports[host] = (str(told[0]), int(told[1]))

    def _drop(self, channel: Channel, how: str, since: float | None = None) -> None:
        """Close a connection that broke, or was silent `since` then. Its host may come back in a heartbeat's time."""
        host = self._hosts.pop(channel, None)
        self._close(channel)
        if host and (self.membership.end is None or self._has_ended_well):
            since = time.monotonic() if since is None else since
            self._away[host] = failure_detector.PeerProbe(how, since, self._liveness_ports.get(host))

    def _close(self, channel: Channel | None) -> None:
        if channel is not None and self._channels.pop(channel.fileno(), None) is not None:
            self._pending.discard(channel)
            self._epoll.unregister(channel)
            channel.socket.close()

    def _refuse(self, channel: Channel, error: Exception) -> None:
        self._refused += 1
        peer = _peer_address(channel)
        if self._refused <= MOST_REFUSALS_SHOWN:
            print(
                f"dlc: refused a connection from {peer or 'a peer that is gone'}: {error}", file=sys.stderr, flush=True
            )
        self._note_claim(channel.claims, peer)
        self._drop(channel, "it sent what does not belong to this job")

    def _note_claim(self, host: str, peer: str) -> None:
        """Warn if somebody without the job's token claims to be a missing host: that host, or a stranger that lies.

        Nothing else follows from the claim. A host that was given another token ends by itself.
        """
        if host in self.membership.rules.hosts and host not in self.membership.facts and self.claims.add(host, peer):
            text = f"{self.claims.describe(host)}: a stranger, or that host was given another one; {SAME_TOKEN}"
            print(f"dlc: warning: {text}", file=sys.stderr, flush=True)


def _peer_address(channel: Channel) -> str:
    try:
        return host_addresses.plain_address(str(channel.socket.getpeername()[0]))
    except OSError:
        return ""
