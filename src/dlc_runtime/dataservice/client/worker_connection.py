"""One connection to one worker of a data host: connect, prove, request, receive. Never blocks."""

from __future__ import annotations

import errno
import json
import socket
from typing import TYPE_CHECKING, NamedTuple

from dlc_channel.channel import Channel, NotOfThisJobError, WrongProofError
from dlc_runtime.dataservice.errors import (
    BatchTooLargeError,
    DataServiceError,
    ProtocolError,
    RefusedError,
    RemoteUserError,
    UnsupportedBatchError,
)
from dlc_runtime.dataservice.wire import frames, serialization, tls
from dlc_runtime.dataservice.wire.addresses import keep_alive
from dlc_runtime.dataservice.wire.control_rpc import WRONG_SERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dlc_runtime.dataservice.client.buffers import Buffer, BufferPool

# Every dtype may begin there.
ALIGN_BYTES = 64
# Of one recvmsg_into; Linux takes 1024.
MOST_PARTS = 1000
# That one connection may bring before the others get their turn.
MOST_FRAMES = 16


class RemoteFailure(NamedTuple):
    """A worker's words instead of a batch."""

    told: dict[str, Any]

    def error(self) -> DataServiceError:
        """Make the error that the data host reported."""
        told = self.told
        kind, host = str(told.get("type", "")), str(told.get("host", "?"))
        own = {"UnsupportedBatchError": UnsupportedBatchError, "BatchTooLargeError": BatchTooLargeError}
        if told.get("ours") and kind in own:
            return own[kind](f"on the data host {host}: {told.get('message')}")
        return RemoteUserError(
            f"{kind} in the user's code on the data host {host} (worker {told.get('worker')}, pid {told.get('pid')},"
            f" samples {told.get('indices')}): {told.get('message')}\n\n{told.get('traceback')}",
            kind,
            host,
            str(told.get("traceback")),
        )


class Arrival(NamedTuple):
    """A batch, or a RemoteFailure in its place."""

    epoch: int
    id: int
    batch: Any
    size: int


class Layout(NamedTuple):
    """A schema's arrays in a buffer, each as (start, size); `views` make arrays that keep the buffer alive."""

    schema: serialization.Schema
    places: tuple[tuple[int, int], ...]
    size: int
    views: tuple[Callable[[Any], Any], ...]


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
        # For the handshake; None until the connection is made.
        self._channel: Channel | None = None
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
        return self._channel is None or self._channel.wants_to_write or bool(self._out)

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
            return Arrival(frame.epoch, frame.id, RemoteFailure(_read_failure(self._text)), frame.size)
        layout, buffer, self._buffer = self._layouts[frame.schema], self._buffer, None
        arrays = [view(buffer) for view in layout.views]
        return Arrival(frame.epoch, frame.id, serialization.unpack(layout.schema, arrays, self._text), frame.size)

    def close(self) -> None:
        self.sock.close()


def make_layout(schema: serialization.Schema) -> Layout:
    places, views, at = [], [], 0
    for leaf in schema.arrays:
        places.append((at, leaf.size))
        views.append(_make_view(leaf, at))
        at += -(-leaf.size // ALIGN_BYTES) * ALIGN_BYTES
    return Layout(schema, tuple(places), at, tuple(views))


def _make_view(leaf: serialization.Leaf, start: int) -> Callable[[Any], Any]:
    """Make a function from a buffer to a leaf's array. What all batches share is found out once, here."""
    kind, dtype, shape, size = leaf
    if kind == "B":
        return lambda buffer: bytes(buffer.memory[start : start + size]) if size else b""
    if kind == "T":
        return _tensor_view(dtype, shape, start, size)
    import numpy

    def array(buffer: Any) -> Any:
        if not size:
            return numpy.empty(shape, dtype)
        found = numpy.frombuffer(buffer.owner, numpy.uint8, size, start).view(dtype).reshape(shape)
        return found if kind == "A" else found[()]

    return array


def _tensor_view(dtype: str, shape: tuple[int, ...], start: int, size: int) -> Callable[[Any], Any]:
    import torch

    own = getattr(torch, dtype)
    try:
        import numpy

        is_known = torch.from_numpy(numpy.empty(0, dtype)).dtype is own
    except (ImportError, TypeError, RuntimeError):
        # Numpy has no such numbers, or torch was made for another numpy.
        is_known = False

    def tensor(buffer: Any) -> Any:
        if not size:
            return torch.empty(shape, dtype=own)
        if buffer.is_pinned:
            flat = buffer.flat[start : start + size]
            try:
                return flat.view(own).view(shape)
            except RuntimeError:
                # PyTorch 1.10 views no elements of another size.
                return torch.frombuffer(flat.numpy(), dtype=own).view(shape)
        # Takes half as long as torch.frombuffer.
        if is_known:
            return torch.from_numpy(numpy.ndarray(shape, dtype, buffer.owner, start))
        count = size // serialization.TORCH_DTYPES[dtype]
        return torch.frombuffer(buffer.owner, dtype=own, count=count, offset=start).view(shape)

    return tensor


def _read_failure(text: bytearray) -> dict[str, Any]:
    try:
        told = json.loads(bytes(text))
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ProtocolError(f"expected what went wrong, found {bytes(text[:100])!r}")
    return told
