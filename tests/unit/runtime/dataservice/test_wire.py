"""What comes over a connection is checked before it is used: any bytes give a value or a ProtocolError."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlc_runtime.dataservice.client.link import Arrived, Failure, Link
from dlc_runtime.dataservice.client.pool import Pool
from dlc_runtime.dataservice.errors import ProtocolError, RefusedError, UnsupportedBatchError
from dlc_runtime.dataservice.server import worker
from dlc_runtime.dataservice.server.connection import MOST_QUESTIONS, Connection
from dlc_runtime.dataservice.wire import control, frames, structure, token
from dlc_runtime.dataservice.wire.lines import Lines

TOKEN = b"a token"
SCALARS = st.one_of(
    st.text(max_size=20), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.binary()
)
KEYS = st.one_of(st.text(max_size=5), st.integers())
BATCHES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
JSON = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.sampled_from(["t", "l", "d", "n", "v", "T", "A", "B", "float32"])),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)


def through(batch: Any) -> Any:
    """Packed, described, and built again from bytes."""
    packed = structure.pack(batch)
    schema = structure.read_schema(packed.schema, 1 << 20)
    assert schema.size == sum(part.nbytes for part in packed.parts)
    return structure.build(schema, [bytes(part) for part in packed.parts], packed.extras)


@settings(deadline=None)
@given(BATCHES.filter(lambda batch: b"" not in flat(batch)))
def test_any_nesting_of_values_comes_out_as_it_went_in(batch: Any) -> None:
    found = through(batch)
    assert found == batch
    assert repr(found) == repr(batch)  # also the types: 1 and True are equal, a list and a tuple are not


def flat(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    return [leaf for child in batch for leaf in flat(child)] if isinstance(batch, (list, tuple)) else [batch]


@pytest.mark.parametrize(
    ("batch", "place"),
    [
        ({"a": [1, object()]}, r"batch\['a'\]\[1\]: a builtins.object"),
        ([{1.5: 1}], r"batch\[0\]: keys of a mapping"),
        ((1, {2, 3}), r"batch\[1\]: a builtins.set"),
        (["x" * (frames.MOST_TEXT + 1)], "text and numbers takes"),
    ],
)
def test_what_does_not_travel_is_named_by_its_place(batch: Any, place: str) -> None:
    with pytest.raises(UnsupportedBatchError, match=place):
        structure.pack(batch)


def test_nesting_without_end_is_refused() -> None:
    batch: list[Any] = []
    batch.append(batch)
    with pytest.raises(UnsupportedBatchError, match="nested more than"):
        structure.pack((batch,))


@settings(deadline=None)
@example(b'["A",0,""]', [])
@given(st.one_of(st.binary(max_size=60), JSON.map(lambda value: json.dumps(value).encode())), JSON)
def test_any_description_is_read_or_refused(text: bytes, values: Any) -> None:
    """A description that was read builds a batch, or is refused with its values."""
    try:
        schema = structure.read_schema(text, 1000)
        structure.build(schema, [b""] * len(schema.arrays), json.dumps(values).encode())
    except ProtocolError:
        return
    assert schema.size <= 1000


@pytest.mark.parametrize(
    "tree",
    [
        ["T", "float32", [-1]],
        ["T", "float32", [1 << 40, 1 << 40]],
        ["T", "object", [1]],
        ["T", "float32", ["1"]],
        ["B", "", [1, 2]],
        ["n", "x y", ["a"], [["v"]]],
        ["n", "Pair", ["__class__"], [["v"]]],
        ["n", "Pair", ["a", "a"], [["v"], ["v"]]],
        ["d", [[[1], ["v"]]]],
        ["pickle", "x"],
    ],
)
def test_descriptions_that_would_do_harm_are_refused(tree: Any) -> None:
    with pytest.raises(ProtocolError):
        structure.read_schema(json.dumps(tree).encode(), 1 << 20)


@given(st.binary(min_size=frames.FRAME, max_size=frames.FRAME))
def test_any_header_is_within_the_bounds_or_refused(data: bytes) -> None:
    try:
        frame = frames.read_frame(data, 1000)
    except ProtocolError:
        return
    assert frame.size <= 1000 + frames.MOST_TEXT
    assert frame.packed() == data


@pytest.mark.parametrize(
    "frame",
    [
        frames.Frame(9, 0, 0, 0),
        frames.Frame(frames.BATCH, 0, 0, 1001 + frames.MOST_TEXT),
        frames.Frame(frames.SCHEMA, 0, 0, frames.MOST_TEXT + 1),
        frames.Frame(frames.BATCH, 0, 0, 10, extras=11),
        frames.Frame(frames.BATCH, 0, 0, 10, schema=frames.MOST_SCHEMAS),
    ],
)
def test_a_header_beyond_a_bound_is_refused(frame: frames.Frame) -> None:
    with pytest.raises(ProtocolError):
        frames.read_frame(frame.packed(), 1000)


@pytest.mark.parametrize("character", ["x", "\U0001f600", "\x01", "\udc80"])
def test_an_error_of_any_text_fits_its_frame(character: str) -> None:
    place = worker.Place(0, 1, "algo-1", socket.socket(), 0)
    place.listener.close()
    text = worker.failure(ValueError(character * 200_000), place, [1])
    frame = frames.Frame(frames.ERROR, 0, 0, len(text))
    assert frames.read_frame(frame.packed(), 1000) == frame
    assert json.loads(text)["message"] == character * worker.LONGEST_TRACEBACK


def test_who_does_not_hold_the_token_is_refused_on_either_side() -> None:
    theirs, own = token.nonce(), token.nonce()
    hello = frames.hello(theirs)
    with pytest.raises(RefusedError):
        frames.check_answer(frames.answer(hello, b"another", own), TOKEN, theirs)
    welcome = frames.check_answer(frames.answer(hello, TOKEN, own), TOKEN, theirs)
    frames.check_welcome(welcome, TOKEN, hello, own)
    with pytest.raises(RefusedError):
        frames.check_welcome(frames.answer(hello, TOKEN, own)[-token.PROOF :], TOKEN, hello, own)


def test_a_call_is_bound_to_its_method_its_nonce_and_its_words() -> None:
    nonce = token.nonce()
    call = control.seal(TOKEN, nonce, control.STATUS, {"a": 1})
    assert control.open_call(TOKEN, call, control.STATUS) == {"a": 1}
    for changed in (call[:-1] + b"]", bytes([call[0] ^ 1]) + call[1:], call[:40]):
        with pytest.raises(RefusedError):
            control.open_call(TOKEN, changed, control.STATUS)
    with pytest.raises(RefusedError):
        control.open_call(TOKEN, call, control.STOP)
    with pytest.raises(RefusedError):
        control.open_reply(TOKEN, nonce, control.STATUS, call[token.NONCE :])  # a call is no reply


def test_the_token_follows_from_the_jobs_variables_and_from_nothing_else() -> None:
    job = {"TRAINING_JOB_NAME": "job", "SM_HOSTS": '["a"]'}
    assert token.derive(job) == token.derive({**job, "HOSTNAME": "x"})
    tokens = {token.derive(job), token.derive({**job, "DLC_DATA_TOKEN": "t"}), token.derive({"SM_HOSTS": '["a"]'})}
    assert len(tokens | {token.derive(job, "own"), token.derive({})}) == 5


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return one, other


def fed(data: bytes, step: Callable[[Any], Any]) -> Any:
    """What a server's end of a connection says to these bytes."""
    stranger, own = pair()
    connection = Connection(own, TOKEN)
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


@settings(deadline=None, max_examples=40)
@given(st.binary(min_size=1, max_size=300))
def test_a_stranger_at_a_workers_port_is_refused_whatever_it_says(data: bytes) -> None:
    with pytest.raises((ProtocolError, ConnectionError)):
        fed(data, Connection.receive)


def opened() -> tuple[socket.socket, Connection, bytes]:
    """A consumer that proved itself: its socket, the worker's connection and what begins the stream."""
    consumer, own = pair()
    connection = Connection(own, TOKEN)
    hello = consumer.recv(frames.HELLO, socket.MSG_WAITALL)
    consumer.sendall(frames.answer(hello, TOKEN, token.nonce()))
    own.setblocking(True)
    connection.receive()
    own.setblocking(False)
    assert connection.is_known
    return consumer, connection, consumer.recv(token.PROOF, socket.MSG_WAITALL)


def until_it_ends(step: Callable[[], Any]) -> None:
    """Repeats a step until it raises."""
    while True:
        step()


def test_questions_may_come_in_pieces_and_garbage_after_them_is_refused() -> None:
    consumer, connection, _ = opened()
    text = frames.Question(1, 2).packed() + frames.Question(1, 3).packed()
    connection.sock.setblocking(True)
    for at in range(0, len(text), 5):
        consumer.sendall(text[at : at + 5])
        connection.receive()
    assert list(connection.questions) == [(1, 2), (1, 3)]
    consumer.sendall(b"x" * frames.QUESTION)
    with pytest.raises(ProtocolError):
        connection.receive()
    consumer.close()
    connection.sock.close()


def test_more_questions_than_a_consumer_may_have_open_are_refused() -> None:
    consumer, connection, _ = opened()
    many = frames.Question(0, 0).packed() * (MOST_QUESTIONS + 1)
    sender = threading.Thread(target=consumer.sendall, args=(many,))
    sender.start()
    connection.sock.setblocking(True)
    with pytest.raises(ProtocolError, match="open questions"):
        until_it_ends(connection.receive)
    sender.join()
    consumer.close()
    connection.sock.close()


def test_a_consumer_that_reads_slowly_holds_one_batch_at_the_worker_and_gets_it_whole() -> None:
    consumer, connection, _ = opened()
    data = bytes(range(256)) * 100_000
    packed = structure.pack([data])
    connection.send_batch(frames.Question(0, 5), packed)
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
            self.link = Link("127.0.0.1", listener.getsockname()[1], TOKEN, Pool(1 << 20), 1 << 20)
            self.sock, _ = listener.accept()
        try:
            self.greet(own_token)
        except RefusedError:
            self.close()
            raise

    def greet(self, own_token: bytes) -> None:
        own = token.nonce()
        self.sock.sendall(frames.hello(own))
        self.link.flush()
        self.arrived()
        answer = self.sock.recv(frames.ANSWER, socket.MSG_WAITALL)
        self.sock.sendall(token.proof(own_token, b"server", own, answer[len(frames.MAGIC) :][: token.NONCE]))
        self.arrived()

    def arrived(self) -> list[Arrived]:
        """What the next bytes bring."""
        assert select.select([self.link.sock], [], [], 60)[0], "it hangs"
        return list(self.link.receive())

    def close(self) -> None:
        self.link.close()
        self.sock.close()


def frame_of(batch: Any, id_: int = 0) -> bytes:
    packed = structure.pack(batch)
    schema = frames.Frame(frames.SCHEMA, 0, id_, len(packed.schema)).packed() + packed.schema
    header = frames.Frame(frames.BATCH, 0, id_, packed.size, 0, len(packed.extras)).packed()
    return schema + header + packed.extras + b"".join(packed.parts)


def test_frames_arrive_whole_however_they_are_cut() -> None:
    batch = {"b": b"bytes" * 50, "n": [1, 2.5, "x"]}
    data = frame_of(batch, 3) + frame_of([b"second"], 4)
    for cut in (1, 7, 31, 33, len(data)):
        far = Far()
        found: list[Arrived] = []
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
    assert (found.epoch, found.id, found.batch) == (2, 9, Failure({"type": "ValueError", "host": "algo-2"}))
    far.close()


def test_lines_cross_whole_and_only_between_those_that_hold_the_token() -> None:
    one, other = pair()
    server, client = Lines(one, TOKEN, is_server=True), Lines(other, TOKEN, is_server=False)
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
