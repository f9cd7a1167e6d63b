"""Finds out whether another host leads the job too: then the hosts were given their list in different orders.

Each such host would wait for the others until DLC_PEER_TIMEOUT. So the first host of a list tries, while hosts are
missing, whether the coordinator of another one answers, which a host has that is the first of its own list.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

from dlc_channel.channel import NotOfThisJobError
from launch.coordination.sockets import group_channel, source_address
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from launch.coordination.membership import MemberConfig

# Before the first try and between two; for one host
PAUSE_SECONDS, TRY_SECONDS = 2.0, 2.0
# Hosts that are tried: in a list of other order each host may be the first
MOST_TRIED = 16


class LeaderScout(threading.Thread):
    """Runs on the leader until the hosts have met."""

    def __init__(self, config: MemberConfig, missing: Callable[[], Collection[str]], own: Collection[str]) -> None:
        """Take what tells the missing hosts now, and the addresses at which this host's coordinator listens."""
        super().__init__(daemon=True, name="other leaders")
        self._config, self._missing, self._own = config, missing, own
        self._is_over = threading.Event()
        # The other host that leads
        self.found = ""

    def stop(self) -> None:
        """Try no more hosts."""
        self._is_over.set()

    def run(self) -> None:
        """Run the thread."""
        while not self.found and not self._is_over.wait(PAUSE_SECONDS):
            for host in list(self._missing())[:MOST_TRIED]:
                if not self._is_over.is_set() and self._leads(host):
                    self.found = host
                    return

    def _leads(self, host: str) -> bool:
        """Return whether a coordinator of this job answers there that is not this host's own."""
        with contextlib.suppress(OSError, NotOfThisJobError, ValueError):
            address = next(iter(host_addresses.resolve(host)), "")
            return bool(address) and address not in self._own and self._proves_itself(address)
        return False

    def _proves_itself(self, address: str) -> bool:
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
