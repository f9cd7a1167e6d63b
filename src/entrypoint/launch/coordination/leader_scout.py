"""Finds out whether the hosts were given their list in different orders: then each would wait until DLC_PEER_TIMEOUT.

While hosts are missing, a leader tries whether one of them leads too, or follows a third one. A host that does not find
its leader listens at the group's port meanwhile, to say whom it follows, and asks its leader the same: two hosts that
take each other for the leader would both wait. Who asks says whom it follows too: the leader that misses this host may
be another one than this host waits for. What is said counts only from who proves that it is of this job.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

from dlc_channel.channel import NotOfThisJobError
from launch.coordination.sockets import ask_listener, group_channel, open_probe_listener, source_address
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from launch.coordination.membership import MemberConfig
    from launch.coordination.sockets import ProbeListener

# Before the first try and between two; for one host
PAUSE_SECONDS, TRY_SECONDS = 2.0, 2.0
# Hosts that are tried: in a list of other order each host may be the first
MOST_TRIED = 16


class LeaderScout(threading.Thread):
    """Runs until the hosts have met."""

    def __init__(self, config: MemberConfig, to_ask: Callable[[], Collection[str]]) -> None:
        """Take what tells whom to ask now: the leader asks missing hosts, another host its leader."""
        super().__init__(daemon=True, name="other leaders")
        self._config, self._to_ask = config, to_ask
        self._own: tuple[str, ...] = ()
        self._is_over = threading.Event()
        self._lookout: ProbeListener | None = None
        # A host, and the other one that it follows: itself if it leads
        self.found = ("", "")

    def stop(self) -> None:
        """Try no more hosts, and free the group's port."""
        self._is_over.set()

    def run(self) -> None:
        """Run the thread."""
        self._own = host_addresses.own_addresses(self._config.host, self._config.interface)
        while not self._is_over.wait(PAUSE_SECONDS):
            hosts = [] if self.found[0] else list(self._to_ask())
            for host in hosts[:MOST_TRIED]:
                follows = "" if self._is_over.is_set() else self._ask(host)
                self._note(host, follows)
            if self._lookout:
                self._note(**self._lookout.heard)
            if self._lookout and not self.found[0] and not hosts:
                break
        if self._lookout:
            self._lookout.close()

    def _note(self, host: str, leader: str) -> None:
        if leader not in ("", self._config.rules.leader):
            self.found = host, leader

    def _ask(self, host: str) -> str:
        """Return whom a host follows; empty if it does not say so, and prove that it is of this job."""
        config = self._config
        address = next(iter(host_addresses.resolve(host)), "")
        if not address or address in self._own:
            return ""
        with contextlib.suppress(OSError, NotOfThisJobError, ValueError, KeyError):
            try:
                return host if self._leads(address) else ""
            except ConnectionRefusedError:
                self._listen()
            except NotOfThisJobError:
                leader = config.rules.leader
                told = ask_listener(address, config.port, config.key, config.host, TRY_SECONDS, leader)
                self._listen()
                return told["leader"] if told["host"] == host else ""
        return ""

    def _listen(self) -> None:
        """Say at the group's port whom this host follows, on the job's addresses alone; its leader needs that port."""
        config = self._config
        if not (self._lookout or config.is_leader) and self._own:
            lookout = open_probe_listener(config.host, self._own, config.port, config.key, config.rules.leader)
            if lookout and lookout.port != config.port:
                lookout.close()
            else:
                self._lookout = lookout

    def _leads(self, address: str) -> bool:
        """Return whether a coordinator of this job answers there. Raises OSError, NotOfThisJobError."""
        deadline = time.monotonic() + TRY_SECONDS
        own = source_address(self._config.host)
        with socket.create_connection((address, self._config.port), TRY_SECONDS, source_address=own) as sock:
            channel = group_channel(sock, self._config.key, False, self._config.host)
            poll = select.poll()
            poll.register(channel, select.POLLIN)
            channel.flush()
            while not channel.is_open and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                channel.receive()
                channel.flush()
            return channel.is_open
