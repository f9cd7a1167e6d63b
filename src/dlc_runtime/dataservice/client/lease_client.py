"""A training rank's side of the leases: a thread that asks rank 0 for ids, and knows how long they may be used."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

from dlc_channel.channel import NotOfThisJobError
from dlc_runtime.dataservice.client.lease_server import open_channel
from dlc_runtime.dataservice.errors import ConsumerLostError, DataServiceError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dlc_channel.channel import Channel
    from dlc_runtime.dataservice.client.prefetcher import Prefetcher

BEAT_SECONDS = 1.0
TICK_SECONDS = 0.25
HANDSHAKE_TICK_SECONDS = 0.01
# In a longer tick this process stood still.
MOST_TICK_SECONDS = 1.0


class LeaseClient:
    """Feeds the prefetcher with ids. A lost connection ends the iteration: its ids may be another rank's by then."""

    def __init__(
        self,
        prefetcher: Prefetcher,
        address: tuple[str, int],
        token: bytes,
        rank: int,
        lost_after: float,
        patience: float,
    ) -> None:
        self.prefetcher, self.rank, self.valid_seconds = prefetcher, rank, lost_after * 2 / 3
        self.address, self.patience = address, patience
        self._channel = join(address, token, patience)
        self._lock = threading.RLock()
        # Of the lease server: how many iterations this rank has begun.
        self.round = 0
        # Ids requested or leased, and not yet taken.
        self._leased = 0
        # Send time of the last beat that the lease server has answered.
        self._answered_at = 0.0
        self._answered = threading.Condition(self._lock)
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="dlc-data-lease-client", daemon=True)
        self._thread.start()

    def begin(self, epoch: int, facts: dict[str, Any], done: Iterable[tuple[int, int]]) -> None:
        """Let the prefetcher begin the epoch, with the ids that the lease server grants from now on."""
        with self._lock:
            self.prefetcher.begin(epoch, (), is_complete=False)
            self.round += 1
            self._leased = 0
            self._answered_at = 0.0
            self._send({"join": {"rank": self.rank, "facts": facts, "done": [list(run) for run in done]}})
            self._send({"beat": time.monotonic()})
            self.top_up()

    def confirm(self, id_: int) -> None:
        """Before a batch is given out: wait until no other rank can have it, then say that it is done."""
        with self._answered:
            while time.monotonic() - self._answered_at > self.valid_seconds and self.prefetcher.fatal is None:
                self._answered.wait(TICK_SECONDS)
            self.prefetcher.raise_fatal()
            self._leased -= 1
            self._send({"done": [id_], **self._request_more()})

    def top_up(self) -> None:
        """Request more ids if the window has grown."""
        with self._lock:
            more = self._request_more()
            if more:
                self._send(more)

    def leave(self) -> None:
        with self._lock:
            self._send({"leave": True})

    def close(self) -> None:
        self._ended = True
        self._thread.join()
        self._channel.socket.close()

    def _request_more(self) -> dict[str, int]:
        wanted = self.prefetcher.window() - self._leased
        if wanted <= 0:
            return {}
        self._leased += wanted
        return {"more": wanted}

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send({"round": self.round, **message})
            self._channel.flush()
        except OSError as error:
            self._fail(error)

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._channel.socket, selectors.EVENT_READ)
        beat, silence, looked = 0.0, 0.0, time.monotonic()
        try:
            while not self._ended:
                ready = selector.select(TICK_SECONDS)
                silence += min(MOST_TICK_SECONDS, time.monotonic() - looked)
                looked = time.monotonic()
                with self._lock:
                    self._channel.flush()
                    for message in self._channel.receive() if ready else ():
                        silence = 0.0
                        self._handle(message)
                    if silence > self.patience:
                        raise TimeoutError(f"it has not answered for {self.patience:.0f} s")
                    if time.monotonic() >= beat and self.round:
                        beat = time.monotonic() + BEAT_SECONDS
                        self._send({"beat": time.monotonic()})
                        self.top_up()
        except (OSError, ProtocolError, NotOfThisJobError) as error:
            self._fail(error)
        finally:
            selector.close()

    def _handle(self, message: dict[str, Any]) -> None:
        if message.get("round") != self.round:
            return
        if "beat" in message:
            self._answered_at = float(message["beat"])
            self._answered.notify_all()
        if message.get("ids"):
            self.prefetcher.add(map(int, message["ids"]))
        if message.get("over"):
            self.prefetcher.end_ids()
        if "error" in message:
            self.prefetcher.fail(DataServiceError(f"first_come: {message['error']}"))
        if message.get("gone"):
            silent = "this rank was silent for so long that its batches went to other ranks"
            self.prefetcher.fail(ConsumerLostError(silent))
        if "lost" in message:
            self.prefetcher.fail(
                ConsumerLostError(
                    f"training rank {message['lost']} is gone, and the batches that it held are not trained; with"
                    " when_lost='give_back' the other ranks would take them"
                )
            )

    def _fail(self, error: Exception) -> None:
        if not self._ended:
            where = f"{self.address[0]}:{self.address[1]}"
            gone = f"training rank 0, which keeps the leases at {where}, is gone ({error})"
            self.prefetcher.fail(ConsumerLostError(gone))


def join(address: tuple[str, int], token: bytes, patience: float) -> Channel:
    """Connect to rank 0, which may start later, until both sides have proved themselves.

    Strangers behind this host's own address can take the seat of a connection that has not: then it is made again.
    Raises ConsumerLostError after `patience` seconds, and at once if what answers is not of this job.
    """
    deadline = time.monotonic() + patience
    where = f"training rank 0, which keeps the leases at {address[0]}:{address[1]},"
    while True:
        sock = None
        try:
            sock = socket.create_connection(address, timeout=min(patience, 10.0))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = open_channel(sock, token, is_server=False)
            while not channel.is_open:
                if time.monotonic() >= deadline:
                    raise TimeoutError("it proves nothing")
                time.sleep(HANDSHAKE_TICK_SECONDS)
                # Rank 0 says nothing before it is asked
                channel.receive()
            return channel
        except (OSError, NotOfThisJobError) as error:
            if sock:
                sock.close()
            if isinstance(error, NotOfThisJobError) or time.monotonic() >= deadline:
                raise ConsumerLostError(
                    f"{where} does not answer ({error}); name it with leases= of RemoteLoader"
                ) from error
            time.sleep(TICK_SECONDS)
