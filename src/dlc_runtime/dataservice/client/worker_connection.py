"""One connection to one worker of a data host: connect, prove, request, receive. Never blocks."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.client.frame_reader import FrameReader
from dlc_runtime.dataservice.wire import channel, tls
from dlc_runtime.dataservice.wire.addresses import keep_alive

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
        self._is_connected = False
        self._hello = b""
        self._own = channel.new_nonce()
        self._inbox = bytearray()
        self._out = bytearray()
        self._reader = FrameReader(buffers, most_batch)
        code = sock.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "connect")

    @property
    def wants_to_write(self) -> bool:
        return not self._is_connected or bool(self._out)

    @property
    def has_more(self) -> bool:
        """Return whether something came of which no selector tells."""
        return bool(tls.pending(self.sock))

    def send_requests(self, requests: bytes | bytearray) -> None:
        self._out += requests
        self.flush()

    def flush(self) -> None:
        """Send what waits; the first time, see whether the connection was made."""
        if not self._is_connected:
            code = self._plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, "connect")
            self._is_connected = True
            self.sock = tls.secure(self._plain, self.token, is_server=False)
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
        missing = (channel.PROOF_BYTES if self._hello else channel.HELLO_BYTES) - len(self._inbox)
        try:
            data = self.sock.recv(missing)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            raise ConnectionError("closed before it proved itself: does it hold another token?")
        self._inbox += data
        if len(data) < missing:
            return
        given = bytes(self._inbox)
        self._inbox.clear()
        if not self._hello:
            self._hello = given
            self.send_requests(channel.answer(given, self.token, self._own))
            return
        channel.check_welcome(given, self.token, self._hello, self._own)
        self.is_open = True

    def close(self) -> None:
        self.sock.close()
