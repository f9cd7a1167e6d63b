"""channel: what one end sends the other gets; what was not made with the job's key, here and now, is refused."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc_channel import channel as module
from dlc_channel.channel import MOST_HANDSHAKE_BYTES, READ_BYTES, NotOfThisJobError
from harness.channel_pair import HOST, KEY, Pair, record
from harness.examples import examples

OTHER_KEY = b"o" * 32
JSON = st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.lists(st.text()))


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@given(st.lists(JSON, max_size=5))
def test_messages_arrive_as_they_were_sent_in_both_directions(messages: list[dict[str, Any]]) -> None:
    pair = Pair()
    pair.client.send({"early": "before the handshake"})
    pair.server.flush()
    pair.client.receive()
    pair.server.receive()
    pair.client.receive()
    assert pair.client.is_open
    assert pair.server.is_open
    for message in messages:
        pair.client.send(message)
        pair.server.send(message)
    pair.client.flush()
    pair.server.flush()
    assert pair.server.receive() == [{"early": "before the handshake"}, *messages]
    if messages:
        assert pair.client.receive() == messages
    pair.close()


def test_a_server_may_speak_with_its_proof(pair: Pair) -> None:
    pair.server.send({"kind": "state"})
    pair.server.flush()
    pair.client.receive()
    pair.server.receive()
    assert pair.client.receive() == [{"kind": "state"}]


@pytest.mark.parametrize(("server", "client"), [(OTHER_KEY, KEY), (KEY, OTHER_KEY)])
def test_another_jobs_key_is_refused_and_both_sides_know_why(server: bytes, client: bytes) -> None:
    pair = Pair(server, client)
    pair.client.send({"kind": "join"})
    pair.server.flush()
    pair.client.receive()
    with pytest.raises(NotOfThisJobError, match="does not hold the job's token"):
        pair.server.receive()
    with pytest.raises(NotOfThisJobError, match="does not hold the job's token"):
        pair.client.receive()
    assert not pair.server.is_open
    assert not pair.client.is_open
    assert pair.server.claims == HOST
    pair.close()


def test_what_comes_is_compared_in_a_time_that_tells_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both) is None)
    pair.client.send({"secret": "of the job"})
    pair.server.flush()
    for end in (pair.client, pair.server, pair.client, pair.server):
        end.receive()
    assert [len(given) for given, _ in compared] == [64, 64, 64], "both proofs, and a line's MAC"
    assert all(given == expected for given, expected in compared)


def test_a_server_that_knows_nothing_gets_no_word_of_the_client(pair: Pair) -> None:
    pair.client.send({"secret": "of the job"})
    pair.sockets[0].send(b"dlc/2 group " + b"0" * 64 + b"\n")
    pair.client.receive()
    assert pair.sockets[0].recv(1 << 16).startswith(b"dlc/2 group ")
    pair.sockets[0].send(b"0" * 64 + b"\n" + b"0" * 64 + b" {}\n")
    with pytest.raises(NotOfThisJobError, match="token"):
        pair.client.receive()
    with pytest.raises(BlockingIOError):
        pair.sockets[0].recv(1)


def test_a_connection_for_another_purpose_is_refused() -> None:
    pair = Pair(purpose="probe")
    pair.server.flush()
    with pytest.raises(NotOfThisJobError, match=r"it says b'dlc/2 group .*, expected dlc/2 probe NONCE"):
        pair.client.receive()
    pair.close()


def test_a_proof_made_with_another_purposes_key_is_refused(pair: Pair) -> None:
    """Though its line names this purpose."""
    stranger = Pair(purpose="probe")
    stranger.client._greeting = pair.client._greeting
    pair.server.flush()
    stranger.client._incoming += pair.sockets[1].recv(1 << 16)
    stranger.client._shake_hands()
    with pytest.raises(NotOfThisJobError, match="token"):
        pair.play(bytes(stranger.client._outgoing))
    stranger.close()


@pytest.mark.parametrize(
    "stray",
    [
        b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00", b"\n", b"dlc/1", b"dlc/2 probe 00\n", b"dlc/2 group \n",
        b"dlc/2 group " + b"0" * 64 + b"\n", b"dlc/2 group 0 algo-2 " + b"0" * 64 + b"\n", b"\0", b"x" * 65_536,
        b"dlc/2 group " + b"0" * 64 + b" a b " + b"0" * 64 + b"\n",
    ],
)  # fmt: skip
def test_what_speaks_something_else_is_refused_at_once(pair: Pair, stray: bytes) -> None:
    pair.sockets[1].setblocking(True)
    pair.sockets[1].sendall(stray)
    with pytest.raises(NotOfThisJobError):
        pair.server.receive()


def test_a_stranger_cannot_fill_the_memory(pair: Pair) -> None:
    pair.play(b"dlc/2 group ")
    while len(pair.server._incoming) < MOST_HANDSHAKE_BYTES - 1:
        assert pair.play(b"x") == []
    with pytest.raises(NotOfThisJobError, match="does not end"):
        pair.play(b"x")


def test_who_holds_the_key_is_bounded_too() -> None:
    pair = Pair()
    pair.server._most_line = 1000
    pair.shake_hands()
    pair.client.send("x" * 1100)
    pair.client._outgoing = pair.client._outgoing[:-1]
    pair.client.flush()
    with pytest.raises(NotOfThisJobError, match="more than 1000 bytes"):
        pair.server.receive()
    pair.close()


def play_lines(pair: Pair, sent: bytes, heard: list[Any]) -> None:
    """Send each line by itself, and one more in case that the end of the last one was changed."""
    for line in [*sent.splitlines(keepends=True), b"\n"]:
        heard += pair.play(line)


def test_every_byte_of_a_session_counts() -> None:
    """Each is changed once: of the handshake, of the MACs, of the messages and of the ends of lines."""
    at, whole = 0, 1
    while at < whole:
        pair, hello, lines = record()
        with pair:
            sent = bytearray(hello + b"".join(lines))
            whole = len(sent)
            sent[at] ^= 1
            heard: list[Any] = []
            with pytest.raises(NotOfThisJobError):
                play_lines(pair, bytes(sent), heard)
            assert heard == [{"kind": "done", "number": number} for number in range(len(heard))]
            assert len(heard) < 3
        at += 1
    assert whole > 300


def lead_through(pair: Pair, changed: int) -> None:
    """Carry a handshake, the changed byte of the server's words aside. Raises NotOfThisJobError where that is seen."""
    pair.server.flush()
    greeting = bytearray(pair.sockets[1].recv(1 << 16))
    if changed < len(greeting):
        greeting[changed] ^= 1
        greeting += b"" if greeting.endswith(b"\n") else b"\n"
    pair.client._incoming += greeting
    pair.client._shake_hands()
    pair.client.flush()
    pair.server.receive()
    welcome = bytearray(pair.sockets[1].recv(1 << 16))
    welcome[changed - len(greeting)] ^= 1
    pair.sockets[0].send(welcome + b"\n")
    pair.client.receive()


def test_every_byte_of_the_servers_words_counts() -> None:
    """The client, the server or in the end the client sees it."""
    greeting, proof = len(b"dlc/2 group ") + 64 + len(b"\n"), 64 + len(b"\n")
    for changed in range(greeting + proof):
        with Pair() as pair:
            with pytest.raises(NotOfThisJobError):
                lead_through(pair, changed)
            assert not pair.client.is_open


def test_a_line_played_again_is_refused(pair: Pair) -> None:
    pair.shake_hands()
    pair.client.send({"kind": "done"})
    line = bytes(pair.client._outgoing)
    pair.client.flush()
    assert pair.server.receive() == [{"kind": "done"}]
    with pytest.raises(NotOfThisJobError, match="does not belong here"):
        pair.play(line)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2), (1,), (0, 0)])
def test_lines_in_another_order_or_with_one_left_out_are_refused(order: tuple[int, ...]) -> None:
    pair, hello, lines = record()
    pair.play(hello)
    with pytest.raises(NotOfThisJobError):
        pair.play(b"".join(lines[number] for number in order))
    pair.close()


def test_a_line_sent_back_to_its_sender_is_refused(pair: Pair) -> None:
    pair.shake_hands()
    pair.client.send({"kind": "done"})
    pair.sockets[0].send(bytes(pair.client._outgoing))
    with pytest.raises(NotOfThisJobError):
        pair.client.receive()


def test_a_proof_sent_back_to_its_sender_is_refused(pair: Pair) -> None:
    pair.server.flush()
    pair.client.receive()
    said = pair.sockets[0].recv(1 << 16).split()[-1]
    pair.sockets[0].send(said + b"\n")
    with pytest.raises(NotOfThisJobError, match="token"):
        pair.client.receive()


def test_a_greeting_sent_back_to_its_server_is_refused(pair: Pair) -> None:
    pair.server.flush()
    with pytest.raises(NotOfThisJobError):
        pair.play(pair.sockets[1].recv(1 << 16))


def test_a_recorded_conversation_does_not_open_another_connection(pair: Pair) -> None:
    other, hello, lines = record()
    other.play(hello + b"".join(lines))
    assert other.server.is_open
    with pytest.raises(NotOfThisJobError, match="token"):
        pair.play(hello + b"".join(lines))
    other.close()


def test_a_line_of_another_connection_of_the_same_hosts_is_refused(pair: Pair) -> None:
    other, _, lines = record()
    pair.shake_hands()
    with pytest.raises(NotOfThisJobError):
        pair.play(lines[0])
    other.close()


def test_the_words_on_the_wire_are_those_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew here out of SHA-256 alone; a change of any byte is another protocol and wants another number."""
    nonces = iter((b"\x01" * 32, b"\x02" * 32))
    monkeypatch.setattr(module.keys, "new_nonce", lambda: next(nonces))
    pair = Pair()
    key = hmac.new(KEY, b"dlc/2 group", hashlib.sha256).digest()
    said = b"".join(b"%d:%s" % (len(part), part) for part in (b"dlc/2 group ", b"01" * 32, b"02" * 32, b"algo-2"))

    def derived(label: bytes) -> bytes:
        return hmac.new(key, b"%d:%s" % (len(label), label) + said, hashlib.sha256).digest()

    assert bytes(pair.server._outgoing) == b"dlc/2 group " + b"01" * 32 + b"\n"
    pair.server.flush()
    pair.client.receive()
    heard = pair.sockets[0].recv(1 << 16)
    assert heard == b"dlc/2 group " + b"02" * 32 + b" algo-2 " + derived(b"client").hex().encode() + b"\n"
    pair.server._incoming += heard
    pair.server._shake_hands()
    assert bytes(pair.server._outgoing) == derived(b"server").hex().encode() + b"\n"
    pair.server.flush()
    pair.client.receive()
    for number, end, label in ((0, pair.client, b"client to server"), (0, pair.server, b"server to client")):
        end.send({"a": 1})
        mac = hmac.new(derived(label), number.to_bytes(8, "big") + b'{"a":1}', hashlib.sha256).hexdigest()
        assert bytes(end._outgoing) == mac.encode() + b' {"a":1}\n'
    assert derived(b"server").hex() == "90dfff28293a25079d12b6451e91858576904293b062d6645ba650fe15e7bde9"
    pair.close()


@pytest.mark.parametrize("host", ["", "a b", "a\nb", "x" * 1000, "é", "it's", "\0"])
def test_a_host_may_have_any_name(host: str) -> None:
    pair = Pair(host=host)
    pair.shake_hands()
    assert pair.server.is_open
    pair.close()


def test_a_name_that_is_claimed_without_a_proof_is_short_and_of_plain_letters() -> None:
    pair = Pair(client_key=OTHER_KEY, host="\udcff\x1b[31m é" * 100)
    pair.server.flush()
    pair.client.receive()
    with pytest.raises(NotOfThisJobError):
        pair.server.receive()
    assert len(pair.server.claims) <= 253
    assert pair.server.claims.isprintable()
    pair.close()


def test_a_closed_connection_is_an_oserror(pair: Pair) -> None:
    pair.sockets[1].close()
    with pytest.raises(OSError, match="closed"):
        pair.server.receive()


@pytest.mark.parametrize("payload", [b"{", b"", b"[" * 100_000, b"\xff", b"9" * 5000])
def test_what_is_no_json_is_refused_even_from_who_holds_the_key(pair: Pair, payload: bytes) -> None:
    pair.shake_hands()
    line = b"%s %s\n" % (module._mac(pair.client._send_key, 0, payload), payload)
    pair.server._incoming += line[:-1]
    with pytest.raises(NotOfThisJobError, match="no JSON"):
        pair.play(line[-1:])


def test_a_large_message_crosses_a_small_buffer(pair: Pair) -> None:
    pair.server._most_line = 1 << 22
    pair.shake_hands()
    pair.client.send({"text": "x" * 3_000_000})
    assert pair.client.wants_to_write
    got: list[dict[str, Any]] = []
    while not got:
        pair.client.flush()
        got = pair.server.receive()
    assert len(got[0]["text"]) == 3_000_000
    assert not pair.client.wants_to_write


def test_after_the_handshake_the_socket_may_serve_another_protocol(pair: Pair) -> None:
    pair.shake_hands()
    assert [pair.server.detach(), pair.client.detach()] == [b"", b""]
    pair.client.socket.send(b"a batch")
    assert pair.server.socket.recv(100) == b"a batch"


def test_who_says_more_than_a_handshake_before_it_is_welcome_is_refused() -> None:
    pair, hello, _ = record()
    assert pair.play(hello + b"a batch") == []
    with pytest.raises(NotOfThisJobError, match="more than a handshake"):
        pair.server.detach()
    pair.close()


def without_end(pair: Pair, data: bytes, cuts: list[int]) -> None:
    """Give the bytes to the server in pieces, until it has had enough."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    try:
        for begin, end in itertools.pairwise(places):
            assert pair.play(data[begin:end]) == []
    except NotOfThisJobError:
        return
    finally:
        assert not pair.server.is_open
        assert len(pair.server._incoming) <= READ_BYTES


BEGINNINGS = st.sampled_from([b"", b"dlc/2 ", b"dlc/2 group ", b"dlc/2 group " + b"0" * 64 + b" algo-2 "])


@examples(300)
@given(BEGINNINGS, st.binary(max_size=2000), st.lists(st.integers(0, 3000), max_size=4))
def test_any_bytes_before_a_proof_are_waited_for_or_refused(start: bytes, rest: bytes, cuts: list[int]) -> None:
    pair = Pair()
    without_end(pair, start + rest, cuts)
    pair.close()


@examples(300)
@given(st.binary(min_size=1, max_size=500), st.booleans())
def test_any_bytes_after_a_proof_are_waited_for_or_refused(rest: bytes, to_client: bool) -> None:
    pair = Pair()
    pair.shake_hands()
    sender, receiver = (pair.sockets[0], pair.client) if to_client else (pair.sockets[1], pair.server)
    sender.send(rest)
    if b"\n" in rest:
        with pytest.raises(NotOfThisJobError):
            receiver.receive()
    else:
        assert receiver.receive() == []
    pair.close()


def test_json_is_in_one_line(pair: Pair) -> None:
    pair.shake_hands()
    pair.client.send("a\nb")
    assert json.loads(bytes(pair.client._outgoing).split(b" ", 1)[1]) == "a\nb"
    assert bytes(pair.client._outgoing).count(b"\n") == 1
