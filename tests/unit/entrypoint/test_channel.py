"""channel: what one end sends the other gets; what was not made with the job's key is refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.coordination.channel import Channel, NotOfThisJobError, job_key, pack_json, unpack_json

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
JSON = st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.lists(st.text()))


class Pair:
    """Two ends of a connection, and the wire in between at hand."""

    def __init__(self, server_key: bytes = KEY, client_key: bytes = KEY) -> None:
        self.sockets = socket.socketpair()
        self.server = Channel(self.sockets[0], server_key, is_server=True)
        self.client = Channel(self.sockets[1], client_key, is_server=False)

    def greet(self) -> None:
        for end in (self.server, self.client):
            end.flush()
        assert self.server.receive() == []
        assert self.client.receive() == []

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@given(st.lists(JSON, max_size=5))
def test_messages_arrive_as_they_were_sent_in_both_directions(messages: list[dict[str, Any]]) -> None:
    pair = Pair()
    pair.client.send({"early": "before the greeting"})
    pair.greet()
    for message in messages:
        pair.client.send(message)
        pair.server.send(message)
    pair.client.flush()
    pair.server.flush()
    assert pair.server.receive() == [{"early": "before the greeting"}, *messages]
    if messages:
        assert pair.client.receive() == messages
    pair.close()


def test_another_jobs_key_is_refused() -> None:
    pair = Pair(client_key=OTHER_KEY)
    pair.greet()
    pair.client.send({"kind": "end"})
    pair.client.flush()
    with pytest.raises(NotOfThisJobError, match="token"):
        pair.server.receive()
    assert not pair.server.authentic
    pair.close()


@pytest.mark.parametrize("stray", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\n", b"\n", b"dlc-group/2 00\n"])
def test_what_speaks_something_else_is_refused(pair: Pair, stray: bytes) -> None:
    pair.sockets[1].setblocking(True)
    pair.sockets[1].sendall(stray)
    with pytest.raises(NotOfThisJobError):
        pair.server.receive()


def test_a_stranger_cannot_fill_the_memory(pair: Pair) -> None:
    pair.sockets[1].setblocking(True)
    pair.sockets[1].sendall(b"x" * 100_000)
    assert pair.server.receive() == []
    with pytest.raises(NotOfThisJobError, match="does not end"):
        pair.server.receive()


def test_a_line_played_again_is_refused(pair: Pair) -> None:
    pair.greet()
    pair.client.send({"kind": "done"})
    line = bytes(pair.client._outgoing)
    pair.client.flush()
    assert pair.server.receive() == [{"kind": "done"}]
    pair.sockets[1].send(line)
    with pytest.raises(NotOfThisJobError):
        pair.server.receive()


def test_a_line_sent_back_to_its_sender_is_refused(pair: Pair) -> None:
    pair.greet()
    pair.client.send({"kind": "done"})
    pair.sockets[0].send(bytes(pair.client._outgoing))
    with pytest.raises(NotOfThisJobError):
        pair.client.receive()


def test_a_recorded_conversation_does_not_open_another_connection(pair: Pair) -> None:
    greeting = bytes(pair.client._outgoing)
    pair.greet()
    pair.client.send({"kind": "end"})
    line = bytes(pair.client._outgoing)
    other = Pair()
    other.sockets[1].send(greeting + line)
    with pytest.raises(NotOfThisJobError):
        other.server.receive()
    other.close()


def test_a_closed_connection_is_an_oserror(pair: Pair) -> None:
    pair.sockets[1].close()
    with pytest.raises(OSError, match="closed"):
        pair.server.receive()


def test_a_large_message_crosses_a_small_buffer(pair: Pair) -> None:
    pair.greet()
    pair.client.send({"kind": "join"})
    pair.client.flush()
    assert pair.server.receive() == [{"kind": "join"}]
    pair.client.send({"text": "x" * 3_000_000})
    got: list[dict[str, Any]] = []
    while not got:
        pair.client.flush()
        got = pair.server.receive()
    assert len(got[0]["text"]) == 3_000_000


def test_what_a_thousand_hosts_say_of_themselves_is_small_on_the_wire() -> None:
    facts = {f"algo-{n}": {"image": "1f" * 32, "traps": ["a" * 300] * 5, "ssh key": f"{n:068d}"} for n in range(1000)}
    packed = pack_json(facts)
    assert len(packed) < 200_000
    assert unpack_json(packed) == facts


def test_the_token_comes_first_then_the_arn_then_the_name_then_the_hosts() -> None:
    everything = {"DLC_JOB_TOKEN": "t", "TRAINING_JOB_ARN": "a", "TRAINING_JOB_NAME": "n"}
    keys = []
    while everything:
        keys.append(job_key(everything, ["h"]))
        assert keys[-1] == job_key({**everything, "OTHER": "x"}, ["h"])
        del everything[next(iter(everything))]
    keys.append(job_key({}, ["a", "b"]))
    assert keys[-1] == job_key({}, ["b", "a"])
    keys += [job_key({}, ["ab"]), job_key({"TRAINING_JOB_NAME": "h"}, [])]
    assert len(set(keys)) == len(keys)
