"""Training rank 0's keeper of the leases, spoken to as the ranks do: ends of epochs, ranks that are ahead or gone."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dlc_runtime.dataservice.client.keeper import Keeper
from dlc_runtime.dataservice.wire import address
from dlc_runtime.dataservice.wire.lines import Lines

HANGS = 60.0  # seconds; only a bound
TOKEN = b"a token"
FACTS = {"epoch": 0, "batches": 6, "world": 2}


class Voice:
    """A rank's connection."""

    def __init__(self, port: int, rank: int) -> None:
        self.rank, self.heard = rank, []
        self.lines = Lines(socket.create_connection(("127.0.0.1", port), timeout=HANGS), TOKEN, is_server=False)
        ends = time.monotonic() + HANGS
        while not self.lines.is_open:
            assert time.monotonic() < ends, "no greeting"
            self.listen(0.1)

    def say(self, number: int, **message: Any) -> None:
        self.lines.send({"round": number, **message})
        self.listen(0.0)

    def join(self, number: int, more: int = 2, **facts: Any) -> None:
        self.say(number, join={"rank": self.rank, "facts": {**FACTS, **facts}, "done": []})
        self.say(number, more=more)

    def listen(self, seconds: float) -> None:
        self.lines.flush()
        if select.select([self.lines.sock], [], [], seconds)[0]:
            self.heard += self.lines.receive()

    def hear(self, number: int, word: str) -> Any:
        """The next message of the round that has the word."""
        deadline = time.monotonic() + HANGS
        while not (found := [one for one in self.heard if one["round"] == number and word in one]):
            assert time.monotonic() < deadline, f"it hangs; heard: {self.heard}"
            self.listen(0.1)
        self.heard.remove(found[0])
        return found[0][word]


class Keepers:
    """Makes keepers and the ranks that speak to them; all end with the test."""

    def __init__(self) -> None:
        self.keepers: list[Keeper] = []
        self.voices: list[Voice] = []

    def keeper(self, when_lost: str = "fail", lost_after: float = HANGS, patience: float = HANGS) -> int:
        listener = address.listener("127.0.0.1")
        self.keepers.append(Keeper(listener, TOKEN, 2, when_lost, lost_after, patience))
        return int(listener.getsockname()[1])

    def voice(self, port: int, rank: int) -> Voice:
        self.voices.append(Voice(port, rank))
        return self.voices[-1]

    def close(self) -> None:
        for voice in self.voices:
            voice.lines.sock.close()
        for keeper in self.keepers:
            keeper.close()


@pytest.fixture
def keepers() -> Iterator[Keepers]:
    found = Keepers()
    yield found
    found.close()


def nothing() -> None:
    """No error of the pump's."""


def test_rank_zero_ends_its_epoch_though_another_rank_waits_in_the_next_one(keepers: Keepers) -> None:
    port = keepers.keeper()
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    zero.join(1)
    one.join(1)
    assert zero.hear(1, "ids")
    assert one.hear(1, "ids")
    one.say(1, leave=True)
    one.join(2, epoch=1)
    one.say(2, beat=7.0)
    assert one.hear(2, "beat") == 7.0
    zero.say(1, leave=True)
    ends = time.monotonic() + HANGS

    def check() -> None:
        assert time.monotonic() < ends, "rank 0 waits for a rank that waits for rank 0"

    keepers.keepers[0].wait_for_all(1, check)
    zero.join(2, epoch=1)
    assert one.hear(2, "ids")
