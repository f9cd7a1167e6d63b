"""One connection to one worker of a data host: connect, prove, request, receive. Never blocks."""

from __future__ import annotations

import errno
import selectors
import socket
from typing import TYPE_CHECKING

from dlc_channel.channel import Channel, NotOfThisJobError, WrongProofError
from dlc_runtime.dataservice.client.frame_reader import FrameReader
from dlc_runtime.dataservice.errors import ProtocolError, RefusedError
from dlc_runtime.dataservice.wire import tls
from dlc_runtime.dataservice.wire.addresses import keep_alive
from dlc_runtime.dataservice.wire.control_rpc import WRONG_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_runtime.dataservice.client.buffers import BufferPool
    from dlc_runtime.dataservice.client.frame_reader import Arrival


class WorkerConnection:
    """Its methods raise OSError (the worker is gone) and ProtocolError."""

    def __init__(self, address: str, port: int, token: bytes, buffers: BufferPool, most_batch: int) -> None:
        self.address, self.port, self.token = address, port, token
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        keep_alive(sock)
        self._plain = sock
        self.sock: tls.Socket = sock
        self.is_open = False
        # For the handshake; None until the connection is made.
        self._channel: Channel | None = None
        self._out = bytearray()
        self._reader = FrameReader(buffers, most_batch)
        code = sock.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "connect")

    @property
    def wants_to_write(self) -> bool:
        return self._channel is None or self._channel.wants_to_write or bool(self._out)

    @property
    def wanted_events(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self.wants_to_write else 0)

    @property
    def has_more(self) -> bool:
        """Return whether something came of which no selector tells."""
        return bool(tls.pending(self.sock))

    def send_requests(self, requests: bytes | bytearray) -> None:
        self._out += requests
        self.flush()

    def flush(self) -> None:
        """Send what waits; the first time, see whether the connection was made."""
        if self._channel is None:
            code = self._plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, "connect")
            self.sock = tls.secure(self._plain, self.token, is_server=False)
            self._channel = Channel(self.sock, self.token, "batch", is_server=False)
        self._channel.flush()
        if self._out:
            try:
                sent = self.sock.send(self._out)
            except (BlockingIOError, InterruptedError):
                return
            del self._out[:sent]

    def receive(self) -> Iterator[Arrival]:
        """Yield what came. The connection is open when both sides have proved themselves."""
        if not self.is_open:
            self._shake_hands()
            if not self.is_open:
                return
        yield from self._reader.read(self.sock)

    def _shake_hands(self) -> None:
        if self._channel is None:
            return
        try:
            self._channel.receive()
            if self._channel.is_open:
                self._out += self._channel.detach()
                self.is_open = True
        except WrongProofError as error:
            raise RefusedError(WRONG_SERVER) from error
        except NotOfThisJobError as error:
            raise ProtocolError(f"no data service listens there: {error}") from error

    def close(self) -> None:
        self.sock.close()
