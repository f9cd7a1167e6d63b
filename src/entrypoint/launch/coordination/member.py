"""This host's connection to the coordinator: kept up, with all that is told and all that is heard."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time

from dlc_channel.channel import NotOfThisJobError
from launch import signals
from launch.base.errors import FAILED, RESTART, SOFTWARE, STOPPED, Failure, Outcome, Verdict
from launch.coordination import failure_detector, membership
from launch.coordination.coordinator import Coordinator
from launch.coordination.membership import GroupEnd, MemberConfig, Membership, as_verdict, end_of, unpack_json
from launch.coordination.sockets import CoordinatorAddress, group_channel, listen_for_group, open_probe_listener
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_channel.channel import Channel
    from launch.coordination.sockets import ProbeListener


RETRY_SECONDS = 0.2
DIAL_SECONDS = 5.0  # for one attempt
NEWS_SECONDS = 10.0  # for the coordinator to answer a failure
# For the coordinator to prove that it is one
HELLO_SECONDS = 5.0
TRY_SECONDS = DIAL_SECONDS + 1.0  # for which one attempt may keep the thread busy


class Member:
    """A group that is joined. The thread keeps the connection; the methods are for the launcher's main thread."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.facts: dict[str, dict[str, Any]] = {}  # host -> what it said of itself on joining; all of them or none
        self.missing: list[str] = []  # whom the coordinator still waits for, to join or to be ready
        self.missing_count = 0
        self.leader = CoordinatorAddress(config.rules.leader, config.port, config.heartbeat)
        self.own_addresses: tuple[str, ...] = ()  # where this host listens, if it is the leader
        self.probe_listener: ProbeListener | None = None  # open until all hosts are ready
        self.end: GroupEnd | None = None
        self.stopping_host = ""  # the first that was asked to stop, and with it the job
        self.generation = 0  # of the processes that run here
        self._state: dict[str, Any] = {}  # the last that the coordinator told
        self._ended_here = ""  # what the stop ended first on this host
        self._instance = os.urandom(8).hex()
        self._own_facts: dict[str, Any] | None = None
        self._coordinator: Coordinator | None = None
        self._coordinator_id = ""
        self._said: list[dict[str, Any]] = []  # all of it: repeated to the coordinator after a break
        self._sent = 0  # how many of these the present connection took
        self._heartbeat_timer = failure_detector.HeartbeatTimer(config.heartbeat)
        self._is_lost = False  # a connection that worked broke, and no other one works yet
        self._how_lost = ""  # set when the leader is given up
        self._refused = failure_detector.RefusedStreak()  # by the leader's machine
        self._liveness_port = failure_detector.LivenessPort()
        self._signals = failure_detector.ProgramSignals(config.program_files)
        self._news_read, self._news_write = os.pipe()
        os.set_blocking(self._news_read, False)
        os.set_blocking(self._news_write, False)
        self._wake_read, self._wake_write = os.pipe()
        self._leave_at = float("inf")  # when to give up telling what was said
        self._has_left = False  # and the coordinator has heard it
        self._thread = threading.Thread(target=self._keep_connection, daemon=True, name="group")

    # What supervision asks

    @property
    def must_stay(self) -> bool:
        """Return whether this host stays when its own part is done: others may need its processes, or its name."""
        return self.config.host in self.config.rules.members

    def fileno(self) -> int:
        """Return a descriptor that is readable on news (a stop, a restart, the end) until `verdict` is asked."""
        return self._news_read

    def verdict(self) -> Verdict | None:
        """Return how this host's processes have to end because of the group; None while they need not."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._news_read, 4096)
        if self.end is not None:
            return as_verdict(self.end)
        if self.has_to_restart:
            return as_verdict(GroupEnd.of_message(self._state["restart"]))._replace(kind=RESTART)
        return None

    def ended_by_stop(self) -> str:
        """Return the first process of the job that the stop ended, if that was on another host; else empty."""
        first = str(self._state.get("ended by stop", ""))
        return first if first != self._ended_here else ""

    @property
    def has_to_restart(self) -> bool:
        """Return whether the group has begun another generation than the one that runs here."""
        return bool(self._state.get("restart")) and self._state["generation"] > self.generation

    @property
    def failure_is_tolerated(self) -> bool:
        """Return whether the job goes on although this host, a data host, has failed."""
        return self.config.host in self._state.get("borne", ())

    @property
    def may_start(self) -> bool:
        """Return whether every host is ready for this generation."""
        return bool(self._state) and self._state["generation"] == self.generation and bool(self._state["ready"])

    @property
    def is_delivered(self) -> bool:
        """Return whether the coordinator knows the end and, on the leader, every other host has come and heard it."""
        if self._coordinator is None:
            return self.end is not None
        return set(self.config.rules.hosts) <= self._coordinator.membership.left

    def claims(self) -> list[str]:
        """Return who claims, without a proof, to be a missing host: it may hold another token."""
        here = self._coordinator
        return [said for host in self.missing if here and (said := here.claims.describe(host))]

    # What this host tells

    def report(self, failure: Failure | None, kind: str = FAILED) -> None:
        """Tell the group that this host's part ended, well (None; with STOPPED its state is saved) or badly."""
        if failure is None:
            self._queue({"kind": "done", "generation": self.generation})
        else:
            self._queue({"kind": "end", "generation": self.generation, "end": end_of(failure, kind).as_message()})

    def tell_stopping(self, signum: int) -> None:
        """Tell the group at once that this host was asked to stop."""
        if not self.stopping_host:
            self.stopping_host = self.config.host
            self._queue({"kind": "stopping", "signal": signum})

    def tell_ended_early(self, by_stop: str = "", left: str = "") -> None:
        """Tell the group that the stop ended a process here, or a rank left, before those that lose it fail."""
        self._ended_here = self._ended_here or by_stop
        self._queue({"kind": "ended early", "by stop": by_stop, "left": left})

    def tell_ready(self) -> None:
        """Tell the group that this host can start the processes of its generation."""
        self._queue({"kind": "ready", "generation": self.generation})

    def await_restart(self) -> bool:
        """Return whether the processes, which have ended here, are to be started again on every host."""
        deadline = time.monotonic() + NEWS_SECONDS
        while not self.has_to_restart and self.end is None and time.monotonic() < deadline:
            if not self._may_restart():
                return False
            time.sleep(RETRY_SECONDS / 10)
        if not self.has_to_restart or self.end is not None:
            return False
        self.generation = self._state["generation"]
        return True

    def explain(self, outcome: Outcome) -> Outcome:
        """Add what the coordinator knows to a failure of this host, or that the leader vanished before it."""
        deadline = time.monotonic() + NEWS_SECONDS
        while outcome.failure and self.end is None and not self.has_to_restart and time.monotonic() < deadline:
            if self._is_lost:  # until it is back, or is given up
                deadline = time.monotonic() + NEWS_SECONDS
            time.sleep(RETRY_SECONDS / 10)
        if outcome.failure and self.end and self.end.cause.startswith(f"{outcome.failure.cause}; "):
            return outcome._replace(failure=outcome.failure._replace(cause=self.end.cause))
        if not (outcome.failure and self.end and self.end.cause.endswith(self._how_lost) and self._how_lost):
            return outcome
        vanished = as_verdict(self.end).outcome
        if outcome == vanished:  # no rank failed before it
            return outcome
        own = (f"then {outcome.failure.cause}", *outcome.failure.last_lines)
        return vanished._replace(failure=vanished.failure and vanished.failure._replace(last_lines=own))

    def _may_restart(self) -> bool:
        """Return whether the last message is a failure, restarts are left, and nobody was asked to stop."""
        last = self._said[-1] if self._said else {}
        failed = last.get("kind") == "end" and last["end"]["kind"] == FAILED
        return failed and self.generation < self.config.rules.restarts and not self.stopping_host

    # Coming and going

    def start(self, facts: dict[str, Any] | None) -> None:
        """Begin to join (without facts: only to say why this host fails); on the leader, open the coordinator first.

        Raises LaunchError when its port is taken.
        """
        self._own_facts = facts
        config = self.config
        if config.is_leader:
            self.own_addresses = host_addresses.own_addresses(config.host, config.interface)
            listeners = listen_for_group(self.own_addresses, config.port)
            self._coordinator = Coordinator(listeners, config.key, Membership(config.rules), config.heartbeat)
            self._coordinator.start()
        if facts is not None and config.probe_port is not None:
            addresses = self.own_addresses or host_addresses.own_addresses(config.host, config.interface)
            self.probe_listener = open_probe_listener(config.host, addresses, config.probe_port, config.key)
            self._own_facts = {**facts, "door": self.probe_listener.port if self.probe_listener else 0}
        self._thread.start()

    def close(self, linger: float | None = None) -> None:
        """Leave when the coordinator heard all; on the leader, when all heard the end. Soon, unless all is well."""
        self.close_probe_listener()
        is_well = bool(self._said) and self._said[-1]["kind"] == "done" and not self.stopping_host
        patience = max(DIAL_SECONDS, self.config.heartbeat if is_well else 0.0)
        self._leave_at = time.monotonic() + (0 if self.leader.why_unreachable else patience)
        os.write(self._wake_write, b"x")
        while self._thread.is_alive() and time.monotonic() < self._leave_at + DIAL_SECONDS + 1:
            self._thread.join(RETRY_SECONDS)
            if signals.received():
                self._leave_at = min(self._leave_at, time.monotonic() + DIAL_SECONDS)
        if self._coordinator:
            self._coordinator.close(*([] if linger is None else [linger]))
        self._signals.take()
        if not self._thread.is_alive():  # one that hangs in a name look-up keeps its descriptors
            self._liveness_port.close()
            for fd in (self._news_read, self._news_write, self._wake_read, self._wake_write):
                os.close(fd)

    def close_probe_listener(self) -> None:
        """Listen no more: no host needs to try this one."""
        if self.probe_listener:
            self.probe_listener.close()

    def _queue(self, message: dict[str, Any]) -> None:
        self._said.append(message)
        os.write(self._wake_write, b"x")

    # The thread

    def _keep_connection(self) -> None:
        """Connect, and again after a break, until the end, `close`, or a heartbeat's time without the coordinator."""
        while self.end is None and not self._has_left and time.monotonic() < self._leave_at:
            channel = None
            try:
                channel = self._connect()
                self._converse(channel)
            except (OSError, NotOfThisJobError) as error:
                self._handle_break(error, channel)
            except Exception as error:  # a bug of ours must end the job, not leave it waiting for ever
                cause = f"internal error: {type(error).__name__}: {error}"
                self._set_end(GroupEnd(False, SOFTWARE, self.config.host, cause))
            finally:
                if channel:
                    channel.socket.close()

    @property
    def _may_leave(self) -> bool:
        """Tell whether this host was asked to leave, and has told all, or had time enough to tell it."""
        all_told = bool(self._coordinator_id) and self._sent == len(self._said)
        return self._leave_at < float("inf") and (all_told or time.monotonic() >= self._leave_at)

    def _connect(self) -> Channel:
        if self.config.is_leader:
            address = (self.own_addresses or (host_addresses.LOOPBACK,))[0]
            sock = socket.create_connection((address, self.config.port), DIAL_SECONDS)
        else:
            sock = self.leader.connect(self.config.host, DIAL_SECONDS)
        self._refused.reset()
        channel = group_channel(sock, self.config.key, False, self.config.host)
        join = {"kind": "join", "host": self.config.host, "instance": self._instance, "hub": self._coordinator_id}
        sign = None if self.config.is_leader else self._liveness_port.open(sock)
        channel.send({**join, "life sign": sign, "facts": self._own_facts})
        self._sent = 0
        return channel

    def _handle_break(self, error: Exception, channel: Channel | None) -> None:
        """Try again soon, unless the coordinator that was there has been gone for too long."""
        how = (error.strerror if isinstance(error, OSError) and error.strerror else "") or str(error)
        if self._coordinator and self._coordinator.failure:
            self._set_end(GroupEnd(False, SOFTWARE, self.config.host, self._coordinator.failure))
            return
        self.leader.note_failure(error, how, answered=channel is not None and not channel.is_open)
        if channel is None and isinstance(error, ConnectionRefusedError):
            self._refused.add(time.monotonic())
        else:
            self._refused.reset()
        self._heartbeat_timer.forgive_pause(time.monotonic(), busy=TRY_SECONDS)
        worked = bool(self._coordinator_id) and channel is not None and channel.is_open and not self._state.get("end")
        self._is_lost = self._is_lost or worked
        if not self._coordinator_id or not (self._heartbeat_timer.is_expired or self._refused.is_long_enough):
            if worked:
                _print_line(f"the connection to {self.config.rules.leader} broke ({how}); connecting again")
            self._liveness_port.clear()
            select.select([self._wake_read], [], [], RETRY_SECONDS)
        elif self.stopping_host:
            self._set_end(GroupEnd(True, kind=STOPPED))  # the leader has stopped already
        else:
            is_gone = self._refused.is_long_enough
            last = f"{failure_detector.describe_silence(self.config.heartbeat)}; the last attempt to connect: {how}"
            how = f"{how} for {failure_detector.GONE_SECONDS:g} s, its launcher is gone" if is_gone else last
            self._how_lost = f"which leads the group, vanished: {how}"
            told = {message["kind"] for message in self._said if self._state.get("ready")}
            self._set_end(membership.end_without_leader(self.config, self._how_lost, told))

    def _converse(self, channel: Channel) -> None:
        heartbeat = self.config.heartbeat
        interval, quiet = failure_detector.beat_interval(heartbeat), failure_detector.quiet_bound(heartbeat)
        next_beat = time.monotonic()
        self._heartbeat_timer.forgive_pause(next_beat, busy=TRY_SECONDS)
        while self.end is None and not self._may_leave:
            patience = interval if channel.is_open else min(interval, RETRY_SECONDS)
            self._wait(channel, self._signals.limit_wait(patience))
            for what in self._signals.take():
                self._queue({"kind": what, "generation": self.generation})
            now = time.monotonic()
            if self._heartbeat_timer.forgive_pause(now):
                channel.heard_at = now
            if channel.is_open and now >= next_beat:
                channel.send({"kind": "beat"})
                next_beat = now + interval
            self._talk(channel)
            hello = min(HELLO_SECONDS, quiet / 2 if self._coordinator_id else heartbeat)
            bound = quiet if channel.is_open else hello
            if now - channel.heard_at > bound:
                raise TimeoutError(f"nothing heard for {bound:g} s")
        self._say_goodbye(channel)

    def _talk(self, channel: Channel) -> None:
        if channel.is_open:
            self._send(channel)
        channel.flush()
        for message in channel.receive():
            self._take_message(message, channel)
        if channel.is_open:
            self._heartbeat_timer.reset(channel.heard_at)

    def _wait(self, channel: Channel, timeout: float) -> None:
        poll = select.poll()
        poll.register(channel, select.POLLIN | (select.POLLOUT if channel.wants_to_write else 0))
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

    def _take_message(self, message: dict[str, Any], channel: Channel) -> None:
        if message["kind"] == "facts":
            self.facts = self._with_leaders_address(unpack_json(message["packed"]), channel)
        elif message["kind"] == "state":
            self.leader.note_success(str(channel.socket.getpeername()[0]))
            self._coordinator_id = message["hub"]
            if self._is_lost:
                self._is_lost = False
                _print_line(f"the connection to {self.config.rules.leader} works again")
            self.missing, self.missing_count = message["missing"], message["missing count"]
            news = bool(message["stopped"]) and not self.stopping_host
            self.stopping_host = self.stopping_host or message["stopped"]
            self._state = message
            failure_detector.tell_ended(self.config.ended_file, message.get("through", ()))
            if message["end"]:
                self._set_end(GroupEnd.of_message(message["end"]))
            elif news or self.has_to_restart:
                self._announce()

    def _with_leaders_address(self, facts: dict[str, dict[str, Any]], channel: Channel) -> dict[str, dict[str, Any]]:
        """Add the leader's address, which this host sees and the leader itself cannot know."""
        leader = self.config.rules.leader
        if not self.config.is_leader and leader in facts:
            facts[leader]["address"] = host_addresses.plain_address(str(channel.socket.getpeername()[0]))
        return facts

    def _set_end(self, end: GroupEnd) -> None:
        self.end = end
        self._announce()

    def _announce(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._news_write, b"x")


def _print_line(text: str) -> None:
    print(f"dlc: {text}", file=sys.stderr, flush=True)
