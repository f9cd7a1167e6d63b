"""Frames out of whatever pieces come: in their order, unharmed, by few system calls, within bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from dlc_runtime.dataservice.client import frame_reader
from dlc_runtime.dataservice.client.buffers import Buffer, BufferPool
from dlc_runtime.dataservice.client.frame_reader import Arrival, FrameReader, RemoteFailure
from dlc_runtime.dataservice.errors import ProtocolError
from dlc_runtime.dataservice.wire import frames, serialization

MOST = 1 << 24


class Bytes:
    """A socket that has some bytes, and gives at most `pieces[i]` of them to the i-th call."""

    def __init__(self, data: bytes, pieces: Sequence[int] = ()) -> None:
        self.data, self.pieces, self.calls = memoryview(data), list(pieces), 0

    def recvmsg_into(self, views: Sequence[memoryview]) -> tuple[int, None]:
        if not self.data:
            raise BlockingIOError
        most = self.pieces[self.calls % len(self.pieces)] if self.pieces else len(self.data)
        self.calls += 1
        data, done = self.data[:most], 0
        for view in views:
            part = data[done : done + view.nbytes]
            view.cast("B")[: len(part)] = part
            done += len(part)
        self.data = self.data[done:]
        return done, None


class Counting(BufferPool):
    """How many bytes it gave away."""

    taken = 0

    def take(self, size: int) -> Buffer:
        self.taken += size
        return super().take(size)


class Sent:
    """What a worker writes for batches, a description before each that is new; and what has to come of it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.batches: list[Any] = []
        self._schemas: dict[bytes, int] = {}

    def batch(self, batch: Any) -> None:
        packed = serialization.pack(batch)
        if packed.schema not in self._schemas:
            self._schemas[packed.schema] = len(self._schemas)
            header = frames.Frame(frames.SCHEMA, 0, 0, len(packed.schema), self._schemas[packed.schema])
            self.data += header.packed() + packed.schema
        number, id_ = self._schemas[packed.schema], len(self.batches)
        self.data += frames.Frame(frames.BATCH, 0, id_, packed.size, number, len(packed.extras)).packed()
        self.data += packed.extras + b"".join(packed.parts)
        self.batches.append(batch)

    def failure(self) -> None:
        self.data += frames.Frame(frames.ERROR, 0, len(self.batches), 2).packed() + b"{}"
        self.batches.append(RemoteFailure({}))


def arrived(sock: Bytes, reader: FrameReader) -> list[Any]:
    """All batches, whose ids have to be in order."""
    found: list[Arrival] = []
    while sock.data:
        found += reader.read(sock)
    assert [item.id for item in found] == list(range(len(found)))
    return [item.batch for item in found]


def mixed(seed: int) -> Sent:
    """Runs of equal batches, single ones, large ones, empty ones, those with text, and failures."""
    chance, sent = random.Random(seed), Sent()
    sizes = [0, 1, 700, 20_000, 90_000, 300_000]
    while len(sent.batches) < 60:
        size, kind = chance.choice(sizes), chance.randrange(6)
        for _ in range(chance.choice((1, 1, 2, 7))):
            data = chance.randbytes(size)
            if kind == 0:
                sent.failure()
            elif kind == 1:
                sent.batch({"data": [data, data[:5]], "text": "x" * chance.choice((3, 3, 3, 9))})
            else:
                sent.batch([data] * (kind % 3))
    return sent


@pytest.mark.parametrize("seed", range(8))
def test_batches_of_all_sizes_arrive_in_order_however_they_are_cut(seed: int) -> None:
    sent, chance = mixed(seed), random.Random(seed)
    for pieces in ((), (50_000,), [chance.choice((1, 31, 33, 4000, 100_000, 10**6)) for _ in range(99)]):
        assert arrived(Bytes(bytes(sent.data), pieces), FrameReader(BufferPool(MOST), MOST)) == sent.batches


def test_batches_cut_into_single_bytes_arrive() -> None:
    sent = Sent()
    for size in (3, 3, 3, 3, 5, 3, 0, 0, 0, 3):
        sent.batch([bytes(size), size])
    assert arrived(Bytes(bytes(sent.data), (1,)), FrameReader(BufferPool(MOST), MOST)) == sent.batches


@pytest.mark.parametrize(("sizes", "most"), [((1000,), 12), ((90_000,), 25), ((1000, 1100), 18)])
def test_several_small_batches_are_one_system_call(sizes: tuple[int, ...], most: int) -> None:
    sent = Sent()
    for number in range(100):
        sent.batch([bytes([number]) * sizes[number % len(sizes)]])
    sock = Bytes(bytes(sent.data))
    assert arrived(sock, FrameReader(BufferPool(MOST), MOST)) == sent.batches
    assert sock.calls <= most


@pytest.mark.parametrize("size", [10, 5000, 100_000, frame_reader.SMALL_BYTES + 1, 1 << 20])
def test_the_room_for_what_has_not_come_is_bounded(size: int) -> None:
    sent, pool = Sent(), Counting(MOST)
    for number in range(40):
        sent.batch([bytes([number]) * size])
    sock, reader = Bytes(bytes(sent.data), (size + 50,)), FrameReader(pool, MOST)
    count = 0
    while sock.data:
        count += len(list(reader.read(sock)))
        assert pool.taken - count * size <= max(size, frame_reader.AHEAD_BYTES)


def test_a_batch_that_does_not_fit_its_description_is_refused_also_after_many_that_did() -> None:
    sent = Sent()
    for _ in range(5):
        sent.batch([b"12345"])
    data = bytes(sent.data) + frames.Frame(frames.BATCH, 0, 5, 6).packed() + b"123456"
    reader = FrameReader(BufferPool(MOST), MOST)
    found: list[Any] = []
    with pytest.raises(ProtocolError, match="does not fit"):
        found.extend(item.batch for item in reader.read(Bytes(data)))
    with pytest.raises(ConnectionError):
        list(FrameReader(BufferPool(MOST), MOST).read(Closed()))


class Closed:
    """A socket whose other end is gone."""

    def recvmsg_into(self, _views: Sequence[memoryview]) -> tuple[int, None]:
        return 0, None
