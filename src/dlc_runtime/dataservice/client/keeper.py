"""Training rank 0's thread that says which rank may take which id next, where the first comer gets it.

A rank is gone when nothing was heard of it for `lost_after` seconds. A rank that has not heard of the keeper for two
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

from dlc_runtime.dataservice.errors import ProtocolError, SettingError
from dlc_runtime.dataservice.plan import progress
from dlc_runtime.dataservice.plan.progress import Leases
from dlc_runtime.dataservice.wire.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
HANDSHAKE = 10.0  # seconds a stranger may take
MOST_STRANGERS = 64
TICK = 0.25
HALT = 1.0  # seconds between two looks at the clock from which on this process stood still
MOST_AT_ONCE = 4096  # ids of one grant
LONGER = 12  # times the patience that a rank is waited for which is heard of
NOBODY = -1  # the rank of a process that was refused: it gets nothing
ANEW = "start all ranks anew, from a checkpoint"


class Round:
    """One iteration over an epoch, by all ranks. Nothing is granted before every rank is there."""

    def __init__(self, facts: dict[str, Any], when_lost: str) -> None:
        self.facts, self.when_lost = facts, when_lost
        self.done: dict[int, list[tuple[int, int]]] = {}  # rank -> what it did before the job was resumed
        self.heard: dict[int, float] = {}
        self.waiting: dict[int, int] = {}  # rank -> how many ids it asked for
        self.left: set[int] = set()
        self.began = self.told = time.monotonic()  # told: when it was last said who is waited for
        self.leases: Leases | None = None

    def start(self) -> None:
        """Raises SettingError where two ranks did the same batch."""
        done = progress.union(*self.done.values())
        self.leases = Leases(progress.missing(done, self.facts["batches"]), self.when_lost)


class Keeper:
    """Listens until `close`. `patience`: seconds within which a rank of which nothing is heard has to join a round."""

    def __init__(
        self, listener: socket.socket, token: bytes, world: int, when_lost: str, lost_after: float, patience: float
    ) -> None:
        self.token, self.world, self.when_lost = token, world, when_lost
        self.lost_after, self.patience = lost_after, patience
        self._listener = listener
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._lines: dict[int, Lines] = {}
        self._strangers: dict[int, float] = {}  # connections that have not proved themselves, and until when they may
        self._ranks: dict[int, int] = {}  # connection -> rank
        self._heard: dict[int, float] = {}  # rank -> when, in whatever round it is
        self._rounds: dict[int, Round] = {}
        self._looked = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dlc-data-keeper", daemon=True)
        self._thread.start()

    def wait_for_all(self, last: int, check: Callable[[], None]) -> None:
        """Until every rank has left the round `last` and those before, or counts as lost. `check` may raise to end it.

        A rank that is ahead waits in the next round for this one: so that round is not waited for here.
        """
        while any(found.heard for number, found in self._rounds.copy().items() if number <= last):
            check()
            time.sleep(TICK / 5)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            for key, mask in self._selector.select(TICK):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd in self._lines:
                    self._move(key.fd, mask)
            self._clock(time.monotonic())
        for fd in [*self._lines]:
            self._drop(fd)
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lines = Lines(sock, self.token, is_server=True)
        except (OSError, ProtocolError):
            return
        if len(self._strangers) >= MOST_STRANGERS:
            self._drop(next(iter(self._strangers)))
        fd = lines.sock.fileno()
        self._lines[fd] = lines
        self._strangers[fd] = time.monotonic() + HANDSHAKE
        self._selector.register(fd, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _move(self, fd: int, mask: int) -> None:
        lines = self._lines[fd]
        try:
            if mask & selectors.EVENT_WRITE:
                lines.flush()
            if mask & selectors.EVENT_READ:
                for message in lines.receive():
                    self._hear(fd, message)
            if lines.is_open:
                self._strangers.pop(fd, None)
            self._watch(fd)
        except (OSError, ProtocolError, KeyError, TypeError, ValueError, AttributeError):
            self._drop(fd)  # a rank that is gone is found out by its silence

    def _watch(self, fd: int) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._lines[fd].wants_to_write else 0)
        self._selector.modify(fd, events)

    def _hear(self, fd: int, message: dict[str, Any]) -> None:
        """A message has the round's number, and one of: join, more and done, beat, leave."""
        number, now = int(message["round"]), time.monotonic()
        if "join" in message:
            self._join(fd, number, message["join"])
            return
        rank, found = self._ranks[fd], self._rounds.get(number)
        self._heard[rank] = now
        is_between = found is not None and rank in found.left  # it waits for the others, or evaluates
        if is_between and "beat" in message:
            self._say(fd, {"round": number, "beat": message["beat"]})
        if is_between:
            return
        if found is None or rank not in found.heard:
            self._say(fd, {"round": number, "gone": True})
            return
        found.heard[rank] = now
        if message.get("done") and found.leases is not None:
            found.leases.done(rank, message["done"])
        if message.get("leave"):
            found.left.add(rank)
            found.waiting.pop(rank, None)
            del found.heard[rank]
            if found.leases is not None:
                found.leases.gone(rank)
        if message.get("more"):
            found.waiting[rank] = found.waiting.get(rank, 0) + min(int(message["more"]), MOST_AT_ONCE)
        if "beat" in message:
            self._say(fd, {"round": number, "beat": message["beat"]})
        self._grant(number, found)

    def _join(self, fd: int, number: int, told: dict[str, Any]) -> None:
        rank = int(told["rank"])
        for old in [key for key in self._rounds if key < number - 1]:
            del self._rounds[old]  # every rank has begun the one after it
        problem = self._problem(number, rank, told["facts"])
        if problem:
            self._ranks[fd] = NOBODY
            self._say(fd, {"round": number, "error": problem})
            return
        for other in [key for key, same in self._ranks.items() if same == rank and key != fd]:
            self._drop(other)  # of a process that is gone: it would be sent what this one waits for
        self._ranks[fd] = rank
        found = self._rounds.setdefault(number, Round(told["facts"], self.when_lost))
        found.heard[rank] = self._heard[rank] = time.monotonic()
        if found.leases is not None:
            return  # it was lost, and what it had not taken went to others: it takes part again
        found.done[rank] = [(int(first), int(end)) for first, end in told["done"]]
        self._start(number, found)

    def _start(self, number: int, found: Round) -> None:
        """If nobody is waited for any more."""
        if found.leases is not None or self._missing(found, time.monotonic()):
            return
        try:
            found.start()
        except SettingError as error:
            found.leases = Leases(())
            self._tell_all(number, {"error": str(error)})
        self._grant(number, found)

    def _missing(self, found: Round, now: float) -> list[int]:
        """The ranks that have yet to join; not a lost one where the others take what it leaves."""
        may_be_lost = self._heard if self.when_lost == "give_back" else {}
        lost = {rank for rank, heard in may_be_lost.items() if now - heard > self.lost_after}
        return [rank for rank in range(self.world) if rank not in found.done and rank not in lost]

    def _problem(self, number: int, rank: int, facts: dict[str, Any]) -> str:
        """Why the rank may not join the round, if there is a reason."""
        found = self._rounds.get(number)
        if found is None:
            is_late = number < max(self._rounds, default=0)
            return f"training rank {rank} began anew, alone; {ANEW}" if is_late else ""
        if facts != found.facts:
            return f"rank {rank} iterates over {facts}, another rank over {found.facts}"
        if rank in found.heard or rank in found.left:
            return f"two processes say that they are training rank {rank}, or it began anew, alone; {ANEW}"
        return ""

    def _grant(self, number: int, found: Round) -> None:
        """Give every rank that waits what there is."""
        if found.leases is None:
            return
        for fd, rank in self._ranks.items():
            most = found.waiting.get(rank, 0)
            grant = found.leases.grant(rank, most) if most else None
            if grant is not None:
                found.waiting[rank] = 0 if grant.over else most - len(grant.ids)
                self._say(fd, {"round": number, "ids": grant.ids, "over": grant.over})

    def _clock(self, now: float) -> None:
        if now - self._looked >= HALT:
            self._forgive(self._looked, now)
        self._looked = now
        for fd in [fd for fd, until in self._strangers.items() if now > until]:
            self._drop(fd)
        for number, found in self._rounds.items():
            if found.leases is None:
                self._start(number, found)
                self._wait(number, found, now)
            for rank in [rank for rank, heard in found.heard.items() if now - heard > self.lost_after]:
                self._lost(number, found, rank)

    def _forgive(self, begin: float, now: float) -> None:
        """Of a time in which this process stood still HALT counts as silence of a rank, its own one too.

        Not nothing: where a step keeps this thread from its turn each time, a lost rank would never be found out.
        """
        still = now - begin - HALT
        for heard in [self._heard, *[found.heard for found in self._rounds.values()]]:
            heard.update({rank: min(now, at + still) for rank, at in heard.items()})
        for found in self._rounds.values():
            found.began = min(now, found.began + still)  # what a rank that is not known yet has said waits to be read
        self._strangers = {fd: until + still for fd, until in self._strangers.items()}

    def _wait(self, number: int, found: Round, now: float) -> None:
        """Say who is waited for; and end the wait for a rank that is silent, or that takes far too long."""
        missing = self._missing(found, now)
        silent = [rank for rank in missing if now - max(found.began, self._heard.get(rank, 0.0)) > self.patience]
        if silent or (missing and now - found.began > LONGER * self.patience):
            why = "" if silent else f", though they are there, within {LONGER} times the patience; raise patience="
            self._tell_all(number, {"error": f"the training ranks {silent or missing} did not begin the epoch{why}"})
            found.began = now
        elif missing and now - found.told > self.patience:
            found.told = now
            LOG.warning("data service: the training ranks %s have yet to begin the epoch: the others wait", missing)

    def _lost(self, number: int, found: Round, rank: int) -> None:
        del found.heard[rank]
        found.waiting.pop(rank, None)
        if self.when_lost == "fail":
            self._tell_all(number, {"lost": rank})
        elif found.leases is not None:
            found.leases.gone(rank)
            self._grant(number, found)

    def _tell_all(self, number: int, message: dict[str, Any]) -> None:
        for fd in [*self._ranks]:
            self._say(fd, {"round": number, **message})

    def _say(self, fd: int, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a connection that is gone is found when it is read
            self._lines[fd].send(message)
            self._watch(fd)

    def _drop(self, fd: int) -> None:
        self._selector.unregister(fd)
        self._lines.pop(fd).sock.close()
        self._strangers.pop(fd, None)
        self._ranks.pop(fd, None)
