"""Reads the frames of a worker: a batch, whose arrays lie in one buffer, or why there is none.

A body is read to where it stays, by the same system call as the header after it. While small batches of one kind come,
there is room for several of them. If another frame comes than the room was made for, its bytes are copied once.
"""

from __future__ import annotations

import io
import json
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.errors import (
    BatchTooLargeError,
    DataServiceError,
    ProtocolError,
    RemoteUserError,
    UnsupportedBatchError,
)
from dlc_runtime.dataservice.wire import frames, serialization

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dlc_runtime.dataservice.client.buffers import Buffer, BufferPool
    from dlc_runtime.dataservice.wire.tls import Socket

    # What has to be equal if a batch is to fit the room for another one: its size, schema and extras.
    Kind = tuple[int, ...]

# Every dtype may begin there.
ALIGN_BYTES = 64
# Of one recvmsg_into; Linux takes 1024.
MOST_PARTS = 1000
# That one connection may bring before the others get their turn; also that there is room for.
MOST_FRAMES = 16
# A larger batch is worth a system call of its own.
SMALL_BYTES = 1 << 18
# For which there is room while no byte of it has come.
AHEAD_BYTES = 1 << 19
# For small batches that differ.
SCRATCH_BYTES = 1 << 16


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


class Room:
    """Where a frame lies. `frame` is known once its header has come; `views` are what its body lacks."""

    __slots__ = ("buffer", "frame", "got", "head", "kind", "text", "views")

    def __init__(self) -> None:
        self.head = memoryview(bytearray(frames.FRAME))
        # Bytes of the header that have come.
        self.got = 0
        self.frame: frames.Frame | None = None
        # Of the batch that the body was made for, before its header came.
        self.kind: Kind | None = None
        self.text = bytearray()
        self.buffer: Buffer | None = None
        self.views: list[memoryview] = []

    def fill_body(self, size: int) -> int:
        """Take the next `size` bytes as here; return how many of them are the next frame's."""
        views, done = self.views, 0
        for view in views:
            if size < view.nbytes:
                views[done] = view[size:]
                size = 0
                break
            size -= view.nbytes
            done += 1
        del views[:done]
        return size


class FrameReader:
    """What one connection receives after the handshake."""

    def __init__(self, buffers: BufferPool, most_batch: int) -> None:
        self.buffers, self.most_batch = buffers, most_batch
        self._layouts: dict[int, Layout] = {}
        # The first one is of the frame that is being read.
        self._rooms = deque([Room()])
        # Of the frame before; None: it was no batch.
        self._kind: Kind | None = None
        # Whether the one before that, and the one that is being read, are of the same.
        self._is_repeated = False
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # What came for another frame than there was room for, and how much of that has no place yet.
        self._strayed, self._strayed_bytes = io.BytesIO(), 0

    def read(self, sock: Socket) -> Iterator[Arrival]:
        """Yield what has come. Raises OSError (the worker is gone) and ProtocolError."""
        found = 0
        while found < MOST_FRAMES or self._strayed_bytes:
            try:
                size = self._fill_rooms(sock)
            except (BlockingIOError, InterruptedError):
                return
            for arrived in self._finish_frames(size):
                found += 1
                if arrived is not None:
                    yield arrived
            first = self._rooms[0]
            # Nothing of a next frame came along: there is none yet.
            if first.frame is None and not first.got and not self._strayed_bytes:
                return

    def _fill_rooms(self, sock: Socket) -> int:
        """Fill the rooms in their order; return with how many bytes."""
        kind = self._kind
        if kind is not None and kind[0] <= SMALL_BYTES and self._is_repeated and not self._strayed_bytes:
            self._make_rooms_like(kind)
        elif self._rooms[-1].frame is not None:
            self._rooms.append(Room())
        parts: list[memoryview] = []
        for room in self._rooms:
            if room.frame is None:
                parts.append(room.head[room.got :])
            parts += room.views
        if self._strayed_bytes:
            size = sum([self._strayed.readinto(part) for part in parts])
            self._strayed_bytes -= size
            return size
        if kind is not None and kind[0] <= SCRATCH_BYTES and not self._is_repeated:
            parts.append(self._scratch)
        size = sock.recvmsg_into(parts[:MOST_PARTS])[0]
        if not size:
            raise ConnectionError("closed")
        return size

    def _make_rooms_like(self, kind: Kind) -> None:
        """Make room for several batches like the one before."""
        rooms, layout = self._rooms, self._layouts[kind[1]]
        most = min(MOST_FRAMES, AHEAD_BYTES // max(1, kind[0]))
        if rooms[-1].frame is None and rooms[-1].kind is None:
            self._make_body(rooms[-1], kind, layout)
        while len(rooms) < most or rooms[-1].frame is not None:
            rooms.append(Room())
            self._make_body(rooms[-1], kind, layout)

    def _make_body(self, room: Room, kind: Kind, layout: Layout) -> None:
        _, _, extras = room.kind = kind
        room.text, room.buffer = bytearray(extras), None
        room.views = [memoryview(room.text)] if extras else []
        if layout.size:
            room.buffer = self.buffers.take(layout.size)
            memory = room.buffer.memory
            room.views += [memory[start : start + size] for start, size in layout.places if size]

    def _finish_frames(self, size: int) -> Iterator[Arrival | None]:
        """Go through the `size` bytes that were filled in last. Yields None for a frame that brings no batch."""
        while True:
            room = self._rooms[0]
            if room.frame is None:
                missing = frames.FRAME - room.got
                room.got += min(size, missing)
                if size < missing:
                    return
                size -= missing
                frame = frames.read_frame(room.head, self.most_batch)
                if room.kind is None or frame.kind != frames.BATCH or frame[3:] != room.kind:
                    self._keep_strayed(size)
                    size = 0
                    self._begin_body(room, frame)
                room.frame = frame
            size = room.fill_body(size)
            if room.views:
                return
            self._rooms.popleft()
            if not self._rooms:
                self._rooms.append(Room())
            yield self._finish_frame(room, room.frame)

    def _keep_strayed(self, size: int) -> None:
        """Take `size` bytes out of the rooms behind the first header, and take these rooms away."""
        first, *others = self._rooms
        self._rooms = deque([first])
        if size:
            found = bytearray()
            places = [*first.views, *(part for room in others for part in (room.head, *room.views)), self._scratch]
            for place in places:
                found += place[: size - len(found)]
            self._strayed, self._strayed_bytes = io.BytesIO(found), size

    def _begin_body(self, room: Room, frame: frames.Frame) -> None:
        """Make room for the frame's body, whatever it is."""
        self._is_repeated = self._is_repeated and frame.kind == frames.BATCH and frame[3:] == self._kind
        if frame.kind != frames.BATCH:
            room.text, room.buffer = bytearray(frame.size), None
            room.views = [memoryview(room.text)] if frame.size else []
            return
        layout = self._layouts.get(frame.schema)
        if layout is None or frame.size != frame.extras + layout.schema.size:
            raise ProtocolError(f"a batch of {frame.size} bytes does not fit its description")
        self._make_body(room, frame[3:], layout)

    def _finish_frame(self, room: Room, frame: frames.Frame) -> Arrival | None:
        kind = frame[3:] if frame.kind == frames.BATCH else None
        self._is_repeated, self._kind = kind is not None and kind == self._kind, kind
        if frame.kind == frames.SCHEMA:
            self._layouts[frame.schema] = make_layout(serialization.read_schema(bytes(room.text), self.most_batch))
            return None
        if frame.kind == frames.ERROR:
            return Arrival(frame.epoch, frame.id, RemoteFailure(_read_failure(room.text)), frame.size)
        if kind is None:
            raise ProtocolError(f"a frame of kind {frame.kind}, which nobody sends")
        layout, buffer = self._layouts[frame.schema], room.buffer
        arrays = [view(buffer) for view in layout.views]
        return Arrival(frame.epoch, frame.id, serialization.unpack(layout.schema, arrays, room.text), frame.size)


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
        make = bytearray if dtype == serialization.MUTABLE else bytes
        return lambda buffer: make(buffer.memory[start : start + size]) if size else make()
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
