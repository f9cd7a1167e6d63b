"""Random bytes in the place of right ones: no channel opens for them, none takes a line of them, no group is disturbed.

By number of tries, not by time: half a minute of a quiet core in all; ten minutes where it is marked long.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from supervised import HANG_BOUND, wait_until

from dlc_channel.channel import NotOfThisJobError
from dlc_channel.keys import job_key
from harness.channel_pair import record
from harness.ports import free_port
from launch import signals
from launch.coordination.member import Member
from launch.coordination.membership import GroupRules, MemberConfig

SEED = 20261128
HOSTS = ("127.0.0.1", "algo-2")
GREETING = b"dlc/2 group "


def tries(few: int) -> pytest.MarkDecorator:
    """Mark a test that is run with so many tries, and with a hundred times as many by `make test-long`."""
    many = pytest.param(100 * few, marks=[pytest.mark.long, pytest.mark.timeout(3600)])
    return pytest.mark.parametrize("count", [few, many])


def change(chance: random.Random, right: bytes) -> bytes:
    """Change something of it: a bit, a byte more or less, pieces twice, turned round or from elsewhere."""
    while True:
        first, last = sorted(chance.choices(range(len(right) + 1), k=2))
        piece = right[first:last]
        put = chance.choice((
            b"", piece + piece, piece[::-1], chance.randbytes(len(piece)), chance.randbytes(1) + piece,
            piece.upper(), piece.replace(b"\n", b""), bytes(byte ^ (1 << chance.randrange(8)) for byte in piece[:1]),
        ))  # fmt: skip
        found = right[:first] + put + right[last:]
        if found != right:
            return found


def in_pieces(chance: random.Random, data: bytes) -> Iterator[bytes]:
    """Cut the bytes as a network may."""
    while data:
        size = chance.choice((1, 7, 100, len(data)))
        yield data[:size]
        data = data[size:]


@tries(6_000)
def test_a_handshake_that_was_changed_opens_no_channel(count: int) -> None:
    for number in range(count):
        chance = random.Random(f"{SEED} {number}")
        pair, hello, _ = record(0)
        with pair:
            sent = change(chance, hello)
            with suppress(NotOfThisJobError):
                for piece in in_pieces(chance, sent):
                    assert pair.play(piece) == []
            # What comes after the whole handshake is no part of it.
            assert pair.server.is_open == sent.startswith(hello), f"try {number}"


@tries(4_000)
def test_of_lines_that_were_changed_only_those_before_the_change_are_taken(count: int) -> None:
    for number in range(count):
        chance = random.Random(f"{SEED} {number}")
        pair, hello, lines = record(3)
        with pair:
            assert pair.play(hello) == []
            right = b"".join(lines)
            sent = change(chance, right)
            same = next((at for at, byte in enumerate(sent) if right[at : at + 1] != bytes((byte,))), len(sent))
            heard = []
            with suppress(NotOfThisJobError):
                for piece in in_pieces(chance, sent):
                    heard += pair.play(piece)
            assert heard == [{"kind": "done", "number": at} for at in range(len(heard))], f"try {number}"
            assert len(heard) <= right[:same].count(b"\n"), f"try {number}"


def stranger_words(chance: random.Random, greeting: bytes) -> bytes:
    """What somebody may say who has heard the greeting and holds no key."""
    nonce = greeting.split()[2]
    own, proof = (chance.randbytes(32).hex().encode() for _ in range(2))
    right = b"%s%s algo-2 %s\n" % (GREETING, own, proof)
    return chance.choice((
        chance.randbytes(chance.randrange(1, 3000)), GREETING + chance.randbytes(chance.randrange(600)), greeting,
        right, change(chance, right), b"%s%s algo-2 %s\n" % (GREETING, nonce, nonce), right * 300, b"\n" * 100,
    ))  # fmt: skip


@tries(6_000)
def test_a_group_goes_on_whatever_bytes_come_at_its_port(count: int) -> None:
    signals.arm()
    rules, port = GroupRules(HOSTS, HOSTS), free_port()
    groups = [Member(MemberConfig(host, rules, job_key({}, HOSTS), port, HANG_BOUND)) for host in HOSTS]
    try:
        for group in groups:
            group.start({"of": group.config.host})
        wait_until(lambda: all(group.facts for group in groups))
        for number in range(count):
            chance = random.Random(f"{SEED} {number}")
            with suppress(ConnectionError), socket.create_connection((HOSTS[0], port), HANG_BOUND) as stranger:
                greeting = stranger.recv(512)
                for piece in in_pieces(chance, stranger_words(chance, greeting)):
                    stranger.sendall(piece)
        assert [(group.end, group.stopping_host) for group in groups] == [(None, ""), (None, "")]
        for group in groups:
            group.report(None)
        wait_until(lambda: all(group.end is not None for group in groups))
        assert all(group.end is not None and group.end.ok for group in groups)
    finally:
        for group in groups[::-1]:
            group.close()
