"""One connection to one worker of a data host: connect, prove, request, receive. Never blocks."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.client.frame_reader import Arrival, Layout, RemoteFailure, make_layout, read_failure
from dlc_runtime.dataservice.errors import ProtocolError
from dlc_runtime.dataservice.wire import channel, frames, serialization, tls
from dlc_runtime.dataservice.wire.addresses import keep_alive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_runtime.dataservice.client.buffers import Buffer, BufferPool

# Of one recvmsg_into; Linux takes 1024.
MOST_PARTS = 1000
# That one connection may bring before the others get their turn.
MOST_FRAMES = 16


class WorkerConnection:
    """Its methods raise OSError (the worker is gone) and ProtocolError."""

    def __init__(self, address: str, port: int, token: bytes, buffers: BufferPool, most_batch: int) -> None:
        self.address, self.port, self.token, self.buffers, self.most_batch = address, port, token, buffers, most_batch
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
        self._layouts: dict[int, Layout] = {}
        self._head = memoryview(bytearray(frames.FRAME))
        # Bytes of the next header that are there.
        self._got = 0
        self._frame: frames.Frame | None = None
        self._views: list[memoryview] = []
        self._text = bytearray()
        self._buffer: Buffer | None = None
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
        for _ in range(MOST_FRAMES):
            try:
                frame = self._next_frame()
            except (BlockingIOError, InterruptedError):
                return
            if frame is None:
                return
            arrived = self._finish_frame(frame)
            if arrived is not None:
                yield arrived
            # Nothing of a next frame came along: there is none yet.
            if not self._got:
                return

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

    def _next_frame(self) -> frames.Frame | None:
        """Return the next frame once all of it is here. None: its header is not.

        A body is read together with the header after it, so that a small batch costs one system call.
        """
        while True:
            if self._frame is None:
                if self._got < frames.FRAME:
                    size = self.sock.recv_into(self._head[self._got :])
                    self._check_open(size)
                    self._got += size
                    if self._got < frames.FRAME:
                        return None
                self._begin_body(frames.read_frame(self._head, self.most_batch))
            if self._views:
                self._read_body()
            if not self._views:
                frame, self._frame = self._frame, None
                return frame

    def _check_open(self, size: int) -> None:
        if not size:
            raise ConnectionError("closed")

    def _read_body(self) -> None:
        views = self._views
        if len(views) < MOST_PARTS:
            size = self.sock.recvmsg_into([*views, self._head])[0]
        else:
            size = self.sock.recvmsg_into(views[:MOST_PARTS])[0]
        self._check_open(size)
        done = 0
        for view in views:
            if size < view.nbytes:
                views[done] = view[size:]
                size = 0
                break
            size -= view.nbytes
            done += 1
        del views[:done]
        # Bytes beyond the body.
        self._got = size

    def _begin_body(self, frame: frames.Frame) -> None:
        """Make room for the frame's body."""
        self._frame, self._got = frame, 0
        if frame.kind != frames.BATCH:
            self._text = bytearray(frame.size)
            self._views = [memoryview(self._text)] if frame.size else []
            return
        layout = self._layouts.get(frame.schema)
        if layout is None or frame.size != frame.extras + layout.schema.size:
            raise ProtocolError(f"a batch of {frame.size} bytes does not fit its description")
        self._text = bytearray(frame.extras)
        self._views = [memoryview(self._text)] if frame.extras else []
        self._buffer = None
        if layout.size:
            self._buffer = self.buffers.take(layout.size)
            memory = self._buffer.memory
            self._views += [memory[start : start + size] for start, size in layout.places if size]

    def _finish_frame(self, frame: frames.Frame) -> Arrival | None:
        if frame.kind == frames.SCHEMA:
            self._layouts[frame.schema] = make_layout(serialization.read_schema(bytes(self._text), self.most_batch))
            return None
        if frame.kind == frames.ERROR:
            return Arrival(frame.epoch, frame.id, RemoteFailure(read_failure(self._text)), frame.size)
        layout, buffer, self._buffer = self._layouts[frame.schema], self._buffer, None
        arrays = [view(buffer) for view in layout.views]
        return Arrival(frame.epoch, frame.id, serialization.unpack(layout.schema, arrays, self._text), frame.size)

    def close(self) -> None:
        self.sock.close()
