"""A consumer's connection to a worker: handshake, requests in, frames out. Never blocks.

Holds one batch at most, or a few small ones that leave by one system call.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import traceback
from collections import deque
from typing import TYPE_CHECKING

from dlc_channel.channel import Channel, NotOfThisJobError, WrongProofError
from dlc_runtime.dataservice.errors import DataServiceError, ProtocolError, RefusedError
from dlc_runtime.dataservice.wire import frames, tls

if TYPE_CHECKING:
    import socket

    from dlc_runtime.dataservice.wire.serialization import Packed

# That a consumer may have open here.
MOST_REQUESTS = 4096
# Without progress for so long, a slow consumer's bytes wait while others are served.
PATIENCE_SECONDS = 0.1
# Of one sendmsg; Linux takes 1024.
MOST_PARTS = 1000
READ_BYTES = 1 << 16
# Characters.
MOST_TRACEBACK = 1 << 16


class ConsumerConnection:
    """Its methods raise ConnectionError when the consumer is gone, ProtocolError when it breaks the rules."""

    def __init__(self, sock: socket.socket, token: bytes) -> None:
        self.sock = tls.secure(sock, token, is_server=True)
        self.channel = Channel(self.sock, token, "batch", is_server=True)
        self.is_authenticated = False
        # That the worker looks for.
        self.events = selectors.EVENT_READ
        self.requests: deque[frames.BatchRequest] = deque()
        self._inbox = bytearray()
        self._out: deque[memoryview] = deque()
        # Of the batches that were put together since the last one left.
        self.waiting_bytes = 0
        self._kept: list[object] = []
        self._schemas: dict[bytes, int] = {}
        self.channel.flush()

    @property
    def is_full(self) -> bool:
        """Return whether a batch for it waits: it gets no other until that has left."""
        return bool(self._out)

    @property
    def wanted_events(self) -> int:
        waits = self.channel.wants_to_write or (self._out and tls.is_ready(self.sock))
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)

    def transfer(self, mask: int) -> None:
        """Send and read as its events allow."""
        if mask & selectors.EVENT_WRITE:
            self.flush()
        if mask & selectors.EVENT_READ:
            self.receive()

    def receive(self) -> None:
        """Read what has come."""
        if not self.is_authenticated:
            self._shake_hands()
            return
        try:
            data = self.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            raise ConnectionError("closed")
        self._inbox += data
        whole = len(self._inbox) - len(self._inbox) % frames.REQUEST
        self.requests.extend(frames.read_request(self._inbox, at) for at in range(0, whole, frames.REQUEST))
        del self._inbox[:whole]
        if len(self.requests) > MOST_REQUESTS:
            raise ProtocolError(f"more than {MOST_REQUESTS} open requests")

    def _shake_hands(self) -> None:
        """See whether the consumer has proved itself: it says nothing more before it has the worker's proof."""
        try:
            self.channel.receive()
            if self.channel.is_open:
                self.is_authenticated = True
                self.send([memoryview(self.channel.detach())], [])
        except WrongProofError as error:
            raise RefusedError("a connection that does not hold this job's token") from error
        except NotOfThisJobError as error:
            raise ProtocolError(f"expected a consumer: {error}") from error

    def add_batch(self, request: frames.BatchRequest, packed: Packed, is_copied: bool = False) -> None:
        """Let a batch wait for `send`, and before it its description if this connection has not had it.

        `is_copied`: another batch is made before, for which the user's code may use the memory of this one again.
        """
        parts = []
        number = self._schemas.get(packed.schema)
        if number is None:
            if len(self._schemas) == frames.MOST_SCHEMAS:
                self._schemas.clear()
            number = self._schemas[packed.schema] = len(self._schemas)
            size = len(packed.schema)
            header = frames.pack_frame(frames.SCHEMA, *request, size, number)
            parts += [memoryview(header), memoryview(packed.schema)]
        header = frames.pack_frame(frames.BATCH, *request, packed.size, number, len(packed.extras))
        parts.append(memoryview(header))
        if packed.extras:
            parts.append(memoryview(packed.extras))
        parts += packed.parts
        self.waiting_bytes += packed.size
        if is_copied:
            self._out.append(memoryview(b"".join(parts)))
        else:
            self._out += parts
            self._kept += packed.kept

    def add_failure(
        self, request: frames.BatchRequest, error: BaseException, host: str, worker: int, indices: list[int]
    ) -> None:
        """Let it wait, in place of a batch, why there is none."""
        text = failure_message(error, host, worker, indices)
        header = frames.pack_frame(frames.ERROR, *request, len(text))
        self._out += memoryview(header), memoryview(text)
        self.waiting_bytes += len(text)

    def send(self, parts: list[memoryview], kept: list[object]) -> None:
        """Send, or keep what the consumer does not take now; `kept` owns the memory of `parts`."""
        self._out.extend([part for part in parts if part.nbytes])
        self._kept += kept
        self.flush(PATIENCE_SECONDS)

    def flush(self, patience: float = 0.0) -> None:
        """Send what waits, for as long as the consumer takes something within `patience`."""
        self.channel.flush()
        while self._out:
            some = [*self._out] if len(self._out) <= MOST_PARTS else [self._out[at] for at in range(MOST_PARTS)]
            try:
                sent = self.sock.sendmsg(some)
            except (BlockingIOError, InterruptedError):
                if not patience or not tls.is_ready(self.sock) or not _is_writable(self.sock, patience):
                    return
                continue
            self._drop_sent(sent)
        self._kept, self.waiting_bytes = [], 0

    def _drop_sent(self, sent: int) -> None:
        out = self._out
        while sent:
            first = out[0]
            if first.nbytes > sent:
                out[0] = first[sent:]
                return
            sent -= first.nbytes
            out.popleft()


def failure_message(error: BaseException, host: str, worker: int, indices: list[int]) -> bytes:
    """Describe an error for the training rank: JSON that fits a frame, whatever the text is."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if len(text) > MOST_TRACEBACK:
        text = f"{text[: MOST_TRACEBACK // 2]}\n...\n{text[-MOST_TRACEBACK // 2 :]}"
    told = {
        "type": type(error).__qualname__,
        "ours": isinstance(error, DataServiceError),
        "message": str(error)[:MOST_TRACEBACK],
        "traceback": text,
        "host": host,
        "worker": worker,
        "pid": os.getpid(),
        "indices": indices[:64],
    }
    # At most six bytes of a character; in ASCII one may take twelve. What UTF-8 lacks becomes JSON's own escape.
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _is_writable(sock: tls.Socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))
