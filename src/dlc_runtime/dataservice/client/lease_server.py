"""Training rank 0's thread that says which rank may take which id next, if the first comer gets it.

A rank is gone when nothing was heard of it for `lost_after` seconds. A rank that has not heard of this server for two
thirds of that gives out no batch: so no id is given to another rank while the first one could still give it out.
Between two epochs a rank may evaluate for long: while it is heard of, the others wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

from dlc_channel.channel import FEWEST_SEATS, Channel, NotOfThisJobError, PendingConnections, limit_seats
from dlc_runtime.dataservice.errors import ProtocolError, SettingError
from dlc_runtime.dataservice.schedule import progress
from dlc_runtime.dataservice.schedule.assignment import Leases
from dlc_runtime.dataservice.wire import addresses, tls

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
# The longest line lists what was done before a job was resumed.
MOST_LINE_BYTES = 8 << 20
TICK_SECONDS = 0.25
# So long between two looks at the clock, this process stood still.
PAUSE_SECONDS = 1.0
# Ids of one grant.
MOST_GRANTED = 4096
# A rank that still sends messages is waited for so many times longer.
PATIENCE_FACTOR = 12
# The rank of a process that was refused: it gets nothing.
NOBODY = -1
RESTART_ALL = "start all ranks anew, from a checkpoint"


class Round:
    """One iteration over an epoch, by all ranks. Nothing is granted before every rank is there."""

    def __init__(self, facts: dict[str, Any], when_lost: str) -> None:
        self.facts, self.when_lost = facts, when_lost
        # Rank -> what it did before the job was resumed.
        self.done: dict[int, list[tuple[int, int]]] = {}
        self.heard: dict[int, float] = {}
        # Rank -> how many ids it asked for.
        self.waiting: dict[int, int] = {}
        self.left: set[int] = set()
        # `told_at`: when it was last said who is waited for.
        self.began = self.told_at = time.monotonic()
        self.leases: Leases | None = None

    def start(self) -> None:
        """Offer what nobody did. Raises SettingError if two ranks did the same batch."""
        done = progress.merge_runs(*self.done.values())
        self.leases = Leases(progress.missing_ids(done, self.facts["batches"]), self.when_lost)


def open_lease_listener(listen: str, port: int) -> socket.socket:
    """Open the socket at which the ranks ask. Raises SettingError."""
    try:
        return addresses.open_listener(listen, port)
    except OSError as error:
        raise SettingError(
            f"RemoteLoader: rank 0 cannot keep the leases at {addresses.join_host_port(listen, port)}:"
            f" {error.strerror}; name another place with leases=, or DLC_DATA_LEASE_PORT on every host"
        ) from error


def open_channel(sock: socket.socket, token: bytes, is_server: bool) -> Channel:
    """Return one end of a rank's connection to the lease server."""
    return Channel(tls.secure(sock, token, is_server), token, "lease", is_server, most_line=MOST_LINE_BYTES)


class LeaseServer:
    """Listens until `close`. A rank that is silent has to join a round within `patience` seconds."""

    def __init__(
        self, listener: socket.socket, token: bytes, world: int, when_lost: str, lost_after: float, patience: float
    ) -> None:
        self.token, self.world, self.when_lost = token, world, when_lost
        self.lost_after, self.patience = lost_after, patience
        self._listener = listener
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._channels: dict[int, Channel] = {}
        # All ranks may come at once.
        self._pending = PendingConnections(limit_seats(max(FEWEST_SEATS, 2 * world)))
        # Connection -> rank.
        self._ranks: dict[int, int] = {}
        # Rank -> when it was heard of, in any round.
        self._heard: dict[int, float] = {}
        self._rounds: dict[int, Round] = {}
        self._ticked_at = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dlc-data-leases", daemon=True)
        self._thread.start()

    def wait_for_all(self, last: int, check: Callable[[], None]) -> None:
        """Wait until every rank has left the round `last` and those before, or is lost. `check` may raise.

        A rank that is ahead waits in the next round for this one: so that round is not waited for here.
        """
        while any(found.heard for number, found in self._rounds.copy().items() if number <= last):
            check()
            time.sleep(TICK_SECONDS / 5)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            for key, mask in self._selector.select(TICK_SECONDS):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd in self._channels:
                    self._transfer(key.fd, mask)
            self._tick(time.monotonic())
        for fd in [*self._channels]:
            self._drop(fd)
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # No descriptor is left: one that has proved nothing makes room.
            self._drop_stranger(self._pending.to_evict())
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = open_channel(sock, self.token, is_server=True)
        except (OSError, ProtocolError):
            sock.close()
            return
        fd = channel.fileno()
        self._channels[fd] = channel
        self._selector.register(fd, selectors.EVENT_READ | selectors.EVENT_WRITE)
        self._drop_stranger(self._pending.add(channel, str(address[0])))

    def _transfer(self, fd: int, mask: int) -> None:
        channel = self._channels[fd]
        try:
            if mask & selectors.EVENT_WRITE:
                channel.flush()
            if mask & selectors.EVENT_READ:
                for message in channel.receive():
                    self._handle(fd, message)
            if channel.is_open:
                self._pending.discard(channel)
            self._select(fd)
        except (OSError, ProtocolError, NotOfThisJobError, KeyError, TypeError, ValueError, AttributeError):
            # A rank that is gone is found out by its silence.
            self._drop(fd)

    def _select(self, fd: int) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._channels[fd].wants_to_write else 0)
        self._selector.modify(fd, events)

    def _handle(self, fd: int, message: dict[str, Any]) -> None:
        """Do what a message says: it has the round's number, and one of: join, more and done, beat, leave."""
        number, now = int(message["round"]), time.monotonic()
        if "join" in message:
            self._join(fd, number, message["join"])
            return
        rank, found = self._ranks[fd], self._rounds.get(number)
        self._heard[rank] = now
        # It waits for the others, or evaluates.
        is_between = found is not None and rank in found.left
        if is_between and "beat" in message:
            self._send(fd, {"round": number, "beat": message["beat"]})
        if is_between:
            return
        if found is None or rank not in found.heard:
            self._send(fd, {"round": number, "gone": True})
            return
        found.heard[rank] = now
        if message.get("done") and found.leases is not None:
            found.leases.finish(rank, message["done"])
        if message.get("leave"):
            found.left.add(rank)
            found.waiting.pop(rank, None)
            del found.heard[rank]
            if found.leases is not None:
                found.leases.release(rank)
        if message.get("more"):
            found.waiting[rank] = found.waiting.get(rank, 0) + min(int(message["more"]), MOST_GRANTED)
        if "beat" in message:
            self._send(fd, {"round": number, "beat": message["beat"]})
        self._grant(number, found)

    def _join(self, fd: int, number: int, told: dict[str, Any]) -> None:
        rank = int(told["rank"])
        for old in [key for key in self._rounds if key < number - 1]:
            # Every rank has begun the round after it.
            del self._rounds[old]
        problem = self._why_refused(number, rank, told["facts"])
        if problem:
            self._ranks[fd] = NOBODY
            self._send(fd, {"round": number, "error": problem})
            return
        for other in [key for key, same in self._ranks.items() if same == rank and key != fd]:
            # Of a process that is gone: it would be sent what this one waits for.
            self._drop(other)
        self._ranks[fd] = rank
        found = self._rounds.setdefault(number, Round(told["facts"], self.when_lost))
        found.heard[rank] = self._heard[rank] = time.monotonic()
        if found.leases is not None:
            # This rank was lost and its batches went to others: it joins again.
            return
        found.done[rank] = [(int(first), int(end)) for first, end in told["done"]]
        self._start(number, found)

    def _start(self, number: int, found: Round) -> None:
        """Start the round if all ranks are there."""
        if found.leases is not None or self._missing(found, time.monotonic()):
            return
        try:
            found.start()
        except SettingError as error:
            found.leases = Leases(())
            self._send_all(number, {"error": str(error)})
        self._grant(number, found)

    def _missing(self, found: Round, now: float) -> list[int]:
        """Return the ranks that have yet to join, without lost ranks if the others take their batches."""
        may_be_lost = self._heard if self.when_lost == "give_back" else {}
        lost = {rank for rank, heard in may_be_lost.items() if now - heard > self.lost_after}
        return [rank for rank in range(self.world) if rank not in found.done and rank not in lost]

    def _why_refused(self, number: int, rank: int, facts: dict[str, Any]) -> str:
        """Return why the rank may not join the round, if there is a reason."""
        found = self._rounds.get(number)
        if found is None:
            is_late = number < max(self._rounds, default=0)
            return f"training rank {rank} began anew, alone; {RESTART_ALL}" if is_late else ""
        if facts != found.facts:
            return f"rank {rank} iterates over {facts}, another rank over {found.facts}"
        if rank in found.heard or rank in found.left:
            return f"two processes say that they are training rank {rank}, or it began anew, alone; {RESTART_ALL}"
        return ""

    def _grant(self, number: int, found: Round) -> None:
        """Give every rank that waits what there is."""
        if found.leases is None:
            return
        for fd, rank in self._ranks.items():
            most = found.waiting.get(rank, 0)
            ids = found.leases.grant(rank, most) if most else None
            if ids is not None:
                found.waiting[rank] = most - len(ids) if ids else 0
                self._send(fd, {"round": number, "ids": ids, "over": not ids})

    def _tick(self, now: float) -> None:
        if now - self._ticked_at >= PAUSE_SECONDS:
            self._excuse_pause(self._ticked_at, now)
        self._ticked_at = now
        for channel in self._pending.overdue(now):
            self._drop(channel.fileno())
        for number, found in self._rounds.items():
            if found.leases is None:
                self._start(number, found)
                self._check_missing(number, found, now)
            for rank in [rank for rank, heard in found.heard.items() if now - heard > self.lost_after]:
                self._drop_rank(number, found, rank)

    def _excuse_pause(self, begin: float, now: float) -> None:
        """Count a time in which this process stood still as PAUSE_SECONDS of silence, of each rank.

        Not as nothing: if a step keeps this thread from its turn each time, a lost rank would never be found out.
        """
        still = now - begin - PAUSE_SECONDS
        for heard in [self._heard, *[found.heard for found in self._rounds.values()]]:
            heard.update({rank: min(now, at + still) for rank, at in heard.items()})
        for found in self._rounds.values():
            # Words of a rank that is not known yet wait to be read.
            found.began = min(now, found.began + still)
        for channel in self._channels.values():
            channel.opened_at = min(now, channel.opened_at + still)

    def _check_missing(self, number: int, found: Round, now: float) -> None:
        """Say who is waited for; and end the wait for a rank that is silent, or that takes far too long."""
        missing = self._missing(found, now)
        silent = [rank for rank in missing if now - max(found.began, self._heard.get(rank, 0.0)) > self.patience]
        if silent or (missing and now - found.began > PATIENCE_FACTOR * self.patience):
            times = f"within {PATIENCE_FACTOR} times the patience; raise patience="
            why = "" if silent else f", though they are there, {times}"
            self._send_all(number, {"error": f"the training ranks {silent or missing} did not begin the epoch{why}"})
            found.began = now
        elif missing and now - found.told_at > self.patience:
            found.told_at = now
            LOG.warning("data service: the training ranks %s have yet to begin the epoch: the others wait", missing)

    def _drop_rank(self, number: int, found: Round, rank: int) -> None:
        del found.heard[rank]
        found.waiting.pop(rank, None)
        if self.when_lost == "fail":
            self._send_all(number, {"lost": rank})
        elif found.leases is not None:
            found.leases.release(rank)
            self._grant(number, found)

    def _send_all(self, number: int, message: dict[str, Any]) -> None:
        for fd in [*self._ranks]:
            self._send(fd, {"round": number, **message})

    def _send(self, fd: int, message: dict[str, Any]) -> None:
        # A connection that is gone is found when it is read.
        with contextlib.suppress(OSError):
            self._channels[fd].send(message)
            self._channels[fd].flush()
            self._select(fd)

    def _drop_stranger(self, channel: Channel | None) -> None:
        if channel is not None:
            self._drop(channel.fileno())

    def _drop(self, fd: int) -> None:
        self._selector.unregister(fd)
        channel = self._channels.pop(fd)
        self._pending.discard(channel)
        channel.socket.close()
        self._ranks.pop(fd, None)
