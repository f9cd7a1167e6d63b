"""What comes over connections of this host: servers and consumers that break the rules, slow ones, and pieces."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc_channel.channel import Channel, NotOfThisJobError
from dlc_runtime.dataservice.client.buffers import BufferPool
from dlc_runtime.dataservice.client.frame_reader import Arrival, FrameReader, RemoteFailure
from dlc_runtime.dataservice.client.lease_server import open_channel
from dlc_runtime.dataservice.client.worker_connection import WorkerConnection
from dlc_runtime.dataservice.errors import ProtocolError, RefusedError, SettingError
from dlc_runtime.dataservice.server import batch_source, worker
from dlc_runtime.dataservice.server.consumer_connection import MOST_REQUESTS, ConsumerConnection
from dlc_runtime.dataservice.server.worker_status import StatusTable
from dlc_runtime.dataservice.wire import addresses, frames, serialization
from harness.examples import examples

TOKEN = b"a token"


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return one, other


def fed(data: bytes, step: Callable[[Any], Any]) -> Any:
    """What a server's end of a connection says to these bytes."""
    stranger, own = pair()
    connection = ConsumerConnection(own, TOKEN)
    sender = threading.Thread(target=lambda: (stranger.sendall(data), stranger.shutdown(socket.SHUT_WR)))
    sender.start()
    own.setblocking(True)
    try:
        while True:
            step(connection)
    finally:
        sender.join()
        stranger.close()
        own.close()


@examples(40)
@given(st.binary(min_size=1, max_size=300))
def test_a_stranger_at_a_workers_port_is_refused_whatever_it_says(data: bytes) -> None:
    with pytest.raises((ProtocolError, ConnectionError)):
        fed(data, ConsumerConnection.receive)


def opened() -> tuple[socket.socket, ConsumerConnection]:
    """A consumer that proved itself: its socket, and the worker's connection."""
    consumer, own = pair()
    connection = ConsumerConnection(own, TOKEN)
    proving = Channel(consumer, TOKEN, "batch", is_server=False)
    while not proving.is_open:
        connection.transfer(selectors.EVENT_READ | selectors.EVENT_WRITE)
        proving.receive()
    assert connection.is_authenticated
    assert proving.detach() == b""
    consumer.setblocking(True)
    return consumer, connection


def until_it_ends(step: Callable[[], Any]) -> None:
    """Repeats a step until it raises."""
    while True:
        step()


def test_questions_may_come_in_pieces_and_garbage_after_them_is_refused() -> None:
    consumer, connection = opened()
    text = frames.BatchRequest(1, 2).packed() + frames.BatchRequest(1, 3).packed()
    connection.sock.setblocking(True)
    for at in range(0, len(text), 5):
        consumer.sendall(text[at : at + 5])
        connection.receive()
    assert list(connection.requests) == [(1, 2), (1, 3)]
    consumer.sendall(b"x" * frames.REQUEST)
    with pytest.raises(ProtocolError):
        connection.receive()
    consumer.close()
    connection.sock.close()


def test_more_questions_than_a_consumer_may_have_open_are_refused() -> None:
    consumer, connection = opened()
    many = frames.BatchRequest(0, 0).packed() * (MOST_REQUESTS + 1)
    sender = threading.Thread(target=consumer.sendall, args=(many,))
    sender.start()
    connection.sock.setblocking(True)
    with pytest.raises(ProtocolError, match="open requests"):
        until_it_ends(connection.receive)
    sender.join()
    consumer.close()
    connection.sock.close()


def test_a_consumer_that_reads_slowly_holds_one_batch_at_the_worker_and_gets_it_whole() -> None:
    consumer, connection = opened()
    data = bytes(range(256)) * 100_000
    packed = serialization.pack([data])
    connection.add_batch(frames.BatchRequest(0, 5), packed)
    connection.send([], [])
    assert connection.is_full
    got = bytearray()
    while connection.is_full or len(got) < len(data):
        got += consumer.recv(1 << 20)
        connection.flush()
    assert bytes(got).endswith(data[-1000:])
    assert len(got) == 2 * frames.FRAME + len(packed.schema) + packed.size
    consumer.close()
    connection.sock.close()


class Far:
    """A worker of the test's own at the other end of a consumer's Link."""

    def __init__(self, own_token: bytes = TOKEN) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.link = WorkerConnection("127.0.0.1", listener.getsockname()[1], TOKEN, BufferPool(1 << 20), 1 << 20)
            self.sock, _ = listener.accept()
        try:
            self.greet(own_token)
        except RefusedError:
            self.close()
            raise

    def greet(self, own_token: bytes) -> None:
        proving = Channel(self.sock, own_token, "batch", is_server=True)
        self.link.flush()
        while not self.link.is_open:
            proving.flush()
            self.arrived()
            with contextlib.suppress(NotOfThisJobError):
                proving.receive()
        self.sock.setblocking(True)

    def arrived(self) -> list[Arrival]:
        """What the next bytes bring."""
        assert select.select([self.link.sock], [], [], 60)[0], "it hangs"
        return list(self.link.receive())

    def close(self) -> None:
        self.link.close()
        self.sock.close()


def frame_of(batch: Any, id_: int = 0) -> bytes:
    packed = serialization.pack(batch)
    schema = frames.Frame(frames.SCHEMA, 0, id_, len(packed.schema)).packed() + packed.schema
    header = frames.Frame(frames.BATCH, 0, id_, packed.size, 0, len(packed.extras)).packed()
    return schema + header + packed.extras + b"".join(packed.parts)


def test_frames_arrive_whole_however_they_are_cut() -> None:
    batch = {"b": b"bytes" * 50, "n": [1, 2.5, "x"]}
    data = frame_of(batch, 3) + frame_of([b"second"], 4)
    for cut in (1, 7, 31, 33, len(data)):
        far = Far()
        found: list[Arrival] = []
        for at in range(0, len(data), cut):
            far.sock.sendall(data[at : at + cut])
            found += far.arrived()
        while len(found) < 2:
            found += far.arrived()
        assert [(item.id, item.batch) for item in found] == [(3, batch), (4, [b"second"])]
        far.close()


def test_a_server_that_breaks_the_rules_is_left_not_believed() -> None:
    bad = [
        b"HTTP/1.1 400 Bad Request\r\n" + b"x" * frames.FRAME,
        frames.Frame(frames.BATCH, 0, 0, 10).packed(),  # without a description before it
        frames.Frame(frames.SCHEMA, 0, 0, 3).packed() + b"[1]",
        frames.Frame(frames.ERROR, 0, 0, 2).packed() + b"[]",
    ]
    for data in bad:
        far = Far()
        far.sock.sendall(data)
        with pytest.raises(ProtocolError):
            until_it_ends(far.arrived)
        far.close()


def test_a_server_with_another_token_is_refused_by_the_consumer() -> None:
    with pytest.raises(RefusedError):
        Far(b"another")


def test_an_error_frame_is_what_the_worker_told() -> None:
    far = Far()
    text = json.dumps({"type": "ValueError", "host": "algo-2"}).encode()
    far.sock.sendall(frames.Frame(frames.ERROR, 2, 9, len(text)).packed() + text)
    (found,) = far.arrived()
    assert (found.epoch, found.id, found.batch) == (2, 9, RemoteFailure({"type": "ValueError", "host": "algo-2"}))
    far.close()


def test_lines_cross_whole_and_only_between_those_that_hold_the_token() -> None:
    one, other = pair()
    server, client = open_channel(one, TOKEN, is_server=True), open_channel(other, TOKEN, is_server=False)
    long = {"done": list(range(30_000))}
    client.send(long)
    got: list[Any] = []
    while not got:
        server.flush()
        client.receive()
        client.flush()
        got += server.receive()
    assert got == [long]
    one.close()
    other.close()


def test_an_address_that_is_not_this_hosts_is_not_listened_at() -> None:
    assert addresses.own_address("localhost", "eth0") == "127.0.0.1"
    assert addresses.own_address("a name that means nothing", "lo") == "127.0.0.1"
    with pytest.raises(SettingError, match="address="):
        addresses.own_address("a name that means nothing", "no-such-interface")


class Mutable:
    """A dataset whose samples are one piece of memory, written anew for each."""

    def __init__(self, size: int) -> None:
        self.memory = bytearray(size)

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> Any:
        import numpy

        array = numpy.frombuffer(self.memory, numpy.uint8)
        array[:] = index % 251
        return [array]


class Text:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> Any:
        return [bytes([index % 251]) * self.size]


def answered(
    dataset: Any, count: int, quick: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], list[tuple[int, bytes]]]:
    """How many requests each step of a worker answers, and what arrives: id and bytes of each batch."""
    monkeypatch.setattr(worker, "QUICK_SECONDS", quick)
    source = batch_source.make_source(dataset, None, None, False, False, 0, None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = worker.WorkerConfig(0, 1, "algo-1", listener, 2)
        own = worker.Worker(source, config, StatusTable(1), TOKEN, 1 << 24)
        consumer, connection = opened()
        reader = FrameReader(BufferPool(1 << 24), 1 << 24)
        consumer.setblocking(False)
        connection.requests.extend(frames.BatchRequest(0, id_) for id_ in range(count))
        steps, found = [], list[tuple[int, bytes]]()
        while len(found) < count:
            before = len(connection.requests)
            if connection.is_full:
                connection.flush()
            elif before:
                own.answer(connection)
                steps.append(before - len(connection.requests))
            found += ((item.id, bytes(item.batch[0])) for item in reader.read(consumer))
        own.selector.close()
    consumer.close()
    connection.sock.close()
    return steps, found


@contextlib.contextmanager
def worker_of(dataset: Any) -> Iterator[tuple[worker.Worker, Callable[[], socket.socket]]]:
    """A worker of this process, and what connects to it."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=addresses.BACKLOG))
        config = worker.WorkerConfig(0, 1, "algo-1", listener, 2)
        source = batch_source.make_source(dataset, None, None, False, False, 0, None)
        own = worker.Worker(source, config, StatusTable(1), TOKEN, 1 << 24)
        yield own, lambda: stack.enter_context(socket.create_connection(listener.getsockname()))
        for fd in [*own.connections]:
            own.drop(fd)
        own.selector.close()


def test_a_consumer_behind_many_strangers_gets_its_seat_between_two_batches() -> None:
    """A slow batch may come between two looks, and a new stranger with each look."""
    with worker_of(Text(10)) as (own, connect):
        strangers = [connect() for _ in range(100)]
        consumer = connect()
        own.wait_for_events(60.0)
        assert len(own.connections) == len(strangers) + 1
        assert consumer.recv(100).startswith(b"dlc/2 batch ")


def test_strangers_leave_a_worker_descriptors_for_the_users_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with worker_of(Text(10)) as (own, connect):
        for _ in range(40):
            connect()
            own.wait_for_events(60.0)
        assert len(own.connections) == 16


class Slow(Text):
    """Takes half a minute, by its own clock."""

    now = 0.0

    def __getitem__(self, index: int) -> Any:
        self.now += 30
        return super().__getitem__(index)


def test_who_could_not_prove_anything_while_a_batch_was_made_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handshake inside TLS takes several looks."""
    dataset = Slow(10)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: dataset.now))
    with worker_of(dataset) as (own, connect):
        connect()
        own.take_turn()
        ((fd, connection),) = own.connections.items()
        connection.channel.opened_at = dataset.now
        consumer, served = opened()
        served.requests.append(frames.BatchRequest(0, 1))
        own.connections[served.sock.fileno()] = served
        own.selector.register(served.sock, selectors.EVENT_READ)
        for _ in range(3):
            own.take_turn()
            assert fd in own.connections
        assert dataset.now == 30
        dataset.now += 11
        own.take_turn()
        assert fd not in own.connections
        consumer.close()


def test_small_batches_that_are_made_quickly_leave_together_after_a_run_of_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, found = answered(Text(90_000), 60, 60.0, monkeypatch)
    assert found == [(id_, bytes([id_]) * 90_000) for id_ in range(60)]
    assert set(steps[: worker.QUICK_RUN]) == {1}
    assert set(steps[worker.QUICK_RUN : -1]) == {worker.MOST_TOGETHER_BYTES // 90_000}


@pytest.mark.parametrize(("size", "quick"), [(90_000, 0.0), (300_000, 60.0)])
def test_what_is_large_or_takes_long_leaves_at_once(size: int, quick: float, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, found = answered(Text(size), 40, quick, monkeypatch)
    assert found == [(id_, bytes([id_]) * size) for id_ in range(40)]
    assert set(steps) == {1}


def test_a_dataset_may_use_the_memory_of_a_batch_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    steps, found = answered(Mutable(20_000), 100, 60.0, monkeypatch)
    assert max(steps) > 1
    assert found == [(id_, bytes([id_]) * 20_000) for id_ in range(100)]
