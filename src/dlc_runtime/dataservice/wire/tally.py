"""Adds up what the training processes of a job took of an epoch: of several, none knows what the others took.

A process that is through with an epoch tells the first data host its count: the last one hears the sum.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import OrderedDict

from dlc_channel.channel import Channel, NotOfThisJobError, PendingConnections
from dlc_channel.keys import data_key
from dlc_runtime.dataservice.errors import RefusedError
from dlc_runtime.dataservice.wire import addresses

PURPOSE = "tally"
# Whose counts are kept.
MOST_EPOCHS = 256
WITHIN_SECONDS = 5.0
AGAIN_SECONDS = 0.05


class Tally(threading.Thread):
    """Hears one count on a connection, which has a stranger's time and seat to its end."""

    def __init__(self, address: str, port: int) -> None:
        """Listen. Raises OSError."""
        super().__init__(daemon=True)
        self._token = data_key(os.environ)
        self._listener = addresses.open_listener(address, port)
        self._listener.setblocking(False)
        self._channels: dict[int, Channel] = {}
        self._pending = PendingConnections()
        self._counts: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._is_closed = False
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)

    def close(self) -> None:
        """Hear nobody any more."""
        self._is_closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self.join()

    def run(self) -> None:
        """Run the thread."""
        while not self._is_closed:
            for fd, _ in self._poll.poll(1000 if self._channels else None):
                if fd in self._channels:
                    self._hear(self._channels[fd])
                else:
                    self._accept()
            for channel in self._pending.overdue(time.monotonic()):
                self._drop(channel)
        for channel in [*self._channels.values()]:
            self._drop(channel)
        self._listener.close()

    def _add(self, epoch: str, process: str, count: int) -> tuple[int, int]:
        counts = self._counts.setdefault(epoch, {})
        counts[process] = count
        if len(self._counts) > MOST_EPOCHS:
            self._counts.popitem(last=False)
        return len(counts), sum(counts.values())

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except OSError:
            # No descriptor is left: the oldest one makes room.
            self._drop(self._pending.to_evict())
            return
        channel = Channel(sock, self._token, PURPOSE, is_server=True)
        self._channels[channel.fileno()] = channel
        self._poll.register(channel, select.POLLIN)
        self._drop(self._pending.add(channel, str(address[0])))
        self._hear(channel)

    def _hear(self, channel: Channel) -> None:
        try:
            for epoch, process, count in channel.receive():
                channel.send(self._add(epoch, process, count))
            channel.flush()
        except (OSError, NotOfThisJobError, TypeError, ValueError):
            self._drop(channel)

    def _drop(self, channel: Channel | None) -> None:
        if channel is not None and self._channels.pop(channel.fileno(), None) is not None:
            self._pending.discard(channel)
            self._poll.unregister(channel)
            channel.socket.close()


def report_count(address: tuple[str, int], epoch: str, process: str, count: int) -> tuple[int, int]:
    """Return how many processes are through with the epoch, and what they took. Raises OSError and RefusedError."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        try:
            with socket.create_connection(address, WITHIN_SECONDS) as sock:
                channel = Channel(sock, data_key(os.environ), PURPOSE, is_server=False)
                channel.send((epoch, process, count))
                poll = select.poll()
                poll.register(channel, select.POLLIN)
                while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    for processes, total in channel.receive():
                        return processes, total
                    channel.flush()
            raise TimeoutError("it does not answer")
        except NotOfThisJobError as error:
            raise RefusedError(f"what listens there: {error}") from error
        except ConnectionResetError:
            # Strangers behind this process's own address can take its seat before it has proved itself. A count that
            # is told twice is counted once.
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_SECONDS)
