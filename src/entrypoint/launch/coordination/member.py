"""This host's part in the group of hosts: a connection to the hub that is kept, what was said there, what was heard."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time

from launch import signals
from launch.base.errors import FAILED, RESTART, SOFTWARE, STOPPED, UNAVAILABLE, Failure, Outcome, Verdict
from launch.coordination import failure_detector
from launch.coordination.channel import Channel, NotOfThisJobError, unpack
from launch.coordination.coordinator import Hub
from launch.coordination.membership import End, Ledger, Place, end_of, verdict_of
from launch.coordination.sockets import Door, Reach, listen, open_door
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


CONNECT_RETRY = 0.2  # seconds
CONNECT_BOUND = 5.0  # seconds for one attempt
NEWS_BOUND = 10.0  # seconds for the hub to answer a failure
HELLO_BOUND = 5.0  # seconds for the hub to prove that it is one
ATTEMPT = CONNECT_BOUND + 1.0  # seconds for which one attempt may keep the thread busy


class Group:
    """A group that is joined. The thread keeps the connection; the methods are for the launcher's main thread."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.facts: dict[str, dict[str, Any]] = {}  # host -> what it said of itself on joining; all of them or none
        self.missing: list[str] = []  # whom the hub still waits for, to join or to be ready
        self.missing_count = 0
        self.reach = Reach(place.rules.leader, place.port)
        self.own_addresses: tuple[str, ...] = ()  # where this host listens, on the leader
        self.door: Door | None = None  # open until all hosts are ready
        self.end: End | None = None
        self.generation = 0  # of the processes that run here
        self._state: dict[str, Any] = {}  # the last that the hub told
        self._stop_host = ""
        self._ended_here = ""  # what the stop ended first on this host
        self._instance = os.urandom(8).hex()
        self._own_facts: dict[str, Any] | None = None
        self._hub: Hub | None = None
        self._hub_id = ""
        self._said: list[dict[str, Any]] = []  # all of it: repeated to the hub after a break
        self._sent = 0  # how many of these the present connection took
        self._silence = failure_detector.Silence(place.heartbeat)
        self._is_lost = False  # a connection that worked broke, and no other one works yet
        self._how_lost = ""  # set when the leader is given up
        self._refusals = failure_detector.Refusals()  # by the leader's machine
        self._life_sign = failure_detector.LifeSign()
        self._words = failure_detector.Words(place.words)
        self._news_read, self._news_write = os.pipe()
        os.set_blocking(self._news_read, False)
        os.set_blocking(self._news_write, False)
        self._wake_read, self._wake_write = os.pipe()
        self._leave_at = float("inf")  # when to give up telling what was said
        self._has_left = False  # and the hub has heard it
        self._thread = threading.Thread(target=self._keep, daemon=True, name="group")

    # What supervision asks

    @property
    def holds(self) -> bool:
        """Whether this host stays when its own part is done: others may still need its processes, or its name."""
        return self.place.host in self.place.rules.members

    def fileno(self) -> int:
        """Readable from the moment on when there is news (a stop, a restart, the end), until `verdict` is asked."""
        return self._news_read

    def verdict(self) -> Verdict | None:
        """How this host's processes have to end because of the group; None while they need not."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._news_read, 4096)
        if self.end is not None:
            return verdict_of(self.end)
        if self.has_to_restart:
            return verdict_of(End.of_message(self._state["restart"]))._replace(kind=RESTART)
        return None

    def remote_stop(self) -> str:
        """The host that was asked to stop, and with it the job; empty while none was."""
        return self._stop_host

    def ended_by_stop(self) -> str:
        """The first process of the job that the stop ended, where that was on another host; else empty."""
        first = str(self._state.get("ended by stop", ""))
        return first if first != self._ended_here else ""

    @property
    def has_to_restart(self) -> bool:
        """Whether the group has begun another generation than the one that runs here."""
        return bool(self._state.get("restart")) and self._state["generation"] > self.generation

    @property
    def is_borne(self) -> bool:
        """Whether the job goes on although this host, a data host, has failed."""
        return self.place.host in self._state.get("borne", ())

    @property
    def may_start(self) -> bool:
        """Whether every host is ready for this generation."""
        return bool(self._state) and self._state["generation"] == self.generation and bool(self._state["ready"])

    @property
    def is_told(self) -> bool:
        """Whether the hub knows the end and, on the leader, every other host has come and heard it."""
        if self._hub is None:
            return self.end is not None
        return set(self.place.rules.hosts) <= self._hub.ledger.left

    def claims(self) -> list[str]:
        """What strangers said on the leader to be: hosts that are missing, and that may hold another token."""
        return [said for host in self.missing if self._hub and (said := self._hub.claims.describe(host))]

    # What this host tells

    def report(self, failure: Failure | None, kind: str = FAILED) -> None:
        """Tell the group that this host's part ended, well (None; with STOPPED its state is saved) or badly."""
        if failure is None:
            self._say({"kind": "done", "generation": self.generation})
        else:
            self._say({"kind": "end", "generation": self.generation, "end": end_of(failure, kind).as_message()})

    def stopping(self, signum: int) -> None:
        """Tell the group at once that this host was asked to stop."""
        if not self._stop_host:
            self._stop_host = self.place.host
            self._say({"kind": "stopping", "signal": signum})

    def ended_early(self, by_stop: str = "", left: str = "") -> None:
        """Tell the group that the stop ended a process here, or a rank left, before those that lose it fail."""
        self._ended_here = self._ended_here or by_stop
        self._say({"kind": "ended early", "by stop": by_stop, "left": left})

    def ready(self) -> None:
        """Tell the group that this host can start the processes of its generation."""
        self._say({"kind": "ready", "generation": self.generation})

    def begins_again(self) -> bool:
        """Whether the processes, which have ended here, are to be started again on every host."""
        deadline = time.monotonic() + NEWS_BOUND
        while not self.has_to_restart and self.end is None and time.monotonic() < deadline:
            if not self._may_begin_again():
                return False
            time.sleep(CONNECT_RETRY / 10)
        if not self.has_to_restart or self.end is not None:
            return False
        self.generation = self._state["generation"]
        return True

    def explained(self, outcome: Outcome) -> Outcome:
        """A failure of this host with what the hub adds, or what it came from: the leader vanished before."""
        deadline = time.monotonic() + NEWS_BOUND
        while outcome.failure and self.end is None and not self.has_to_restart and time.monotonic() < deadline:
            if self._is_lost:  # until it is back, or is given up
                deadline = time.monotonic() + NEWS_BOUND
            time.sleep(CONNECT_RETRY / 10)
        if outcome.failure and self.end and self.end.cause.startswith(f"{outcome.failure.cause}; "):
            return outcome._replace(failure=outcome.failure._replace(cause=self.end.cause))
        if not (outcome.failure and self.end and self.end.cause.endswith(self._how_lost) and self._how_lost):
            return outcome
        vanished = verdict_of(self.end).outcome
        if outcome == vanished:  # no rank failed before it
            return outcome
        own = (f"then {outcome.failure.cause}", *outcome.failure.last_lines)
        return vanished._replace(failure=vanished.failure and vanished.failure._replace(last_lines=own))

    def _may_begin_again(self) -> bool:
        """Whether the last that was said is a failure, restarts are left, and nobody was asked to stop."""
        last = self._said[-1] if self._said else {}
        failed = last.get("kind") == "end" and last["end"]["kind"] == FAILED
        return failed and self.generation < self.place.rules.restarts and not self._stop_host

    # Coming and going

    def start(self, facts: dict[str, Any] | None) -> None:
        """Begin to join (without facts: only to say why this host fails); on the leader, open the hub first.

        Raises LaunchError when its port is taken.
        """
        self._own_facts = facts
        if self.place.leads:
            self.own_addresses = host_addresses.own_addresses(self.place.host, self.place.interface)
            listeners = listen(self.own_addresses, self.place.port)
            self._hub = Hub(listeners, self.place.key, Ledger(self.place.rules), self.place.heartbeat)
            self._hub.start()
        if facts is not None and self.place.door is not None:
            self._open_door(facts, self.place.door)
        self._thread.start()

    def _open_door(self, facts: dict[str, Any], port: int) -> None:
        place = self.place
        addresses = self.own_addresses or host_addresses.own_addresses(place.host, place.interface)
        self.door = open_door(place.host, addresses, port, place.key)
        self._own_facts = {**facts, "door": self.door.port if self.door else 0}

    def close(self, linger: float | None = None) -> None:
        """Leave: when the hub heard what was said; on the leader, when all heard the end. Soon, unless all is well."""
        self.shut_door()
        is_well = bool(self._said) and self._said[-1]["kind"] == "done" and not self._stop_host
        patience = max(CONNECT_BOUND, self.place.heartbeat if is_well else 0.0)
        self._leave_at = time.monotonic() + (0 if self.reach.hopeless else patience)
        os.write(self._wake_write, b"x")
        while self._thread.is_alive() and time.monotonic() < self._leave_at + CONNECT_BOUND + 1:
            self._thread.join(CONNECT_RETRY)
            if signals.received():
                self._leave_at = min(self._leave_at, time.monotonic() + CONNECT_BOUND)
        if self._hub:
            self._hub.close(*([] if linger is None else [linger]))
        self._words.heard()
        if not self._thread.is_alive():  # one that hangs in a name look-up keeps its descriptors
            self._life_sign.close()
            for fd in (self._news_read, self._news_write, self._wake_read, self._wake_write):
                os.close(fd)

    def shut_door(self) -> None:
        """No host needs to try this one any more."""
        if self.door:
            self.door.close()

    def _say(self, message: dict[str, Any]) -> None:
        self._said.append(message)
        os.write(self._wake_write, b"x")

    # The thread

    def _keep(self) -> None:
        """Connect, and again after a break, until the end, `close`, or a heartbeat's time without the hub."""
        while self.end is None and not self._has_left and time.monotonic() < self._leave_at:
            channel = None
            try:
                channel = self._connect()
                self._converse(channel)
            except (OSError, NotOfThisJobError) as error:
                self._broken(error, channel)
            except Exception as error:  # a bug of ours must end the job, not leave it waiting for ever
                cause = f"internal error: {type(error).__name__}: {error}"
                self._ended(End(False, SOFTWARE, self.place.host, cause))
            finally:
                if channel:
                    channel.socket.close()

    @property
    def _may_leave(self) -> bool:
        """Asked to, and all is told, or there was time enough to tell it."""
        all_told = bool(self._hub_id) and self._sent == len(self._said)
        return self._leave_at < float("inf") and (all_told or time.monotonic() >= self._leave_at)

    def _connect(self) -> Channel:
        if self.place.leads:
            address = (self.own_addresses or (host_addresses.LOOPBACK,))[0]
            sock = socket.create_connection((address, self.place.port), CONNECT_BOUND)
        else:
            sock = self.reach.connect(self.place.host, CONNECT_BOUND)
        self._refusals.end()
        channel = Channel(sock, self.place.key, is_server=False)
        join = {"kind": "join", "host": self.place.host, "instance": self._instance, "hub": self._hub_id}
        sign = None if self.place.leads else self._life_sign.open(sock)
        channel.send({**join, "life sign": sign, "facts": self._own_facts})
        self._sent = 0
        return channel

    def _broken(self, error: Exception, channel: Channel | None) -> None:
        """Try again soon, unless the hub that was there has been gone for too long."""
        how = (error.strerror if isinstance(error, OSError) and error.strerror else "") or str(error)
        if channel:
            with contextlib.suppress(OSError):
                channel.flush()  # by which the hub can tell who comes with another token
        if self._hub and self._hub.failure:
            self._ended(End(False, SOFTWARE, self.place.host, self._hub.failure))
            return
        self.reach.failed(error, how, answered=channel is not None and not channel.authentic)
        if channel is None and isinstance(error, ConnectionRefusedError):
            self._refusals.add(time.monotonic())
        else:
            self._refusals.end()
        self._silence.forgive_pause(time.monotonic(), busy=ATTEMPT)
        worked = bool(self._hub_id) and channel is not None and channel.authentic and not self._state.get("end")
        self._is_lost = self._is_lost or worked
        if not self._hub_id or not (self._silence.is_too_long or self._refusals.are_enough):
            if worked:
                _print(f"the connection to {self.place.rules.leader} broke ({how}); connecting again")
            self._life_sign.clear()
            select.select([self._wake_read], [], [], CONNECT_RETRY)
        elif self._stop_host:
            self._ended(End(True, kind=STOPPED))  # the leader has stopped already
        else:
            is_gone = self._refusals.are_enough
            last = f"{failure_detector.silence(self.place.heartbeat)}; the last attempt to connect: {how}"
            how = f"{how} for {failure_detector.GONE_AFTER:g} s, its launcher is gone" if is_gone else last
            self._how_lost = f"which leads the group, vanished: {how}"
            cause = f"{self.place.rules.leader}, {self._how_lost}"
            self._ended(End(False, UNAVAILABLE, self.place.rules.leader, cause))

    def _converse(self, channel: Channel) -> None:
        interval, quiet = (
            failure_detector.beat_interval(self.place.heartbeat),
            failure_detector.quiet_bound(self.place.heartbeat),
        )
        next_beat = time.monotonic()
        self._silence.forgive_pause(next_beat, busy=ATTEMPT)
        while self.end is None and not self._may_leave:
            self._wait(channel, self._words.patience(interval if channel.authentic else min(interval, CONNECT_RETRY)))
            for what in self._words.heard():
                self._say({"kind": what, "generation": self.generation})
            now = time.monotonic()
            if self._silence.forgive_pause(now):
                channel.heard_at = now
            if channel.authentic and now >= next_beat:
                channel.send({"kind": "beat"})
                next_beat = now + interval
            self._talk(channel)
            hello = min(HELLO_BOUND, quiet / 2 if self._hub_id else self.place.heartbeat)
            bound = quiet if channel.authentic else hello
            if now - channel.heard_at > bound:
                raise TimeoutError(f"nothing heard for {bound:g} s")
        self._say_goodbye(channel)

    def _talk(self, channel: Channel) -> None:
        if channel.authentic:
            self._send(channel)
        channel.flush()
        for message in channel.receive():
            self._take(message, channel)
        if channel.authentic:
            self._silence.end(channel.heard_at)

    def _wait(self, channel: Channel, timeout: float) -> None:
        poll = select.poll()
        poll.register(channel, select.POLLIN | (select.POLLOUT if channel.has_output else 0))
        poll.register(self._wake_read, select.POLLIN)
        if any(fd == self._wake_read for fd, _ in poll.poll(timeout * 1000)):
            os.read(self._wake_read, 4096)

    def _send(self, channel: Channel) -> None:
        for message in self._said[self._sent :]:
            channel.send(message)
            self._sent += 1

    def _say_goodbye(self, channel: Channel) -> None:
        """Close so that what was sent last arrives: closing with unread input would reset the connection."""
        self._send(channel)
        channel.send({"kind": "bye"})
        channel.socket.settimeout(1.0)
        channel.flush()
        channel.socket.shutdown(socket.SHUT_WR)
        while channel.socket.recv(1 << 16):
            pass
        self._has_left = True  # it closes when it has read all

    def _take(self, message: dict[str, Any], channel: Channel) -> None:
        if message["kind"] == "hello":
            self.reach.succeeded(str(channel.socket.getpeername()[0]))
        elif message["kind"] == "facts":
            self.facts = self._with_leaders_address(unpack(message["packed"]), channel)
        elif message["kind"] == "state":
            self._hub_id = message["hub"]
            if self._is_lost:
                self._is_lost = False
                _print(f"the connection to {self.place.rules.leader} works again")
            self.missing, self.missing_count = message["missing"], message["missing count"]
            news = bool(message["stopped"]) and not self._stop_host
            self._stop_host = self._stop_host or message["stopped"]
            self._state = message
            if message["end"]:
                self._ended(End.of_message(message["end"]))
            elif news or self.has_to_restart:
                self._announce()

    def _with_leaders_address(self, facts: dict[str, dict[str, Any]], channel: Channel) -> dict[str, dict[str, Any]]:
        """The hub cannot know the address under which another host reaches it; that host can."""
        leader = self.place.rules.leader
        if not self.place.leads and leader in facts:
            facts[leader]["address"] = host_addresses.plain_address(str(channel.socket.getpeername()[0]))
        return facts

    def _ended(self, end: End) -> None:
        self.end = end
        self._announce()

    def _announce(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._news_write, b"x")


def _print(text: str) -> None:
    print(f"dlc: {text}", file=sys.stderr, flush=True)
