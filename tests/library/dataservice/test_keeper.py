"""Training rank 0's keeper of the leases, spoken to as the ranks do: ends of epochs, ranks that are ahead or gone.

The keeper's clock is the tests': it stands still but where a test lets time pass, so no slow host makes a rank late.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dlc_runtime.dataservice.client import keeper as module
from dlc_runtime.dataservice.client.keeper import Keeper
from dlc_runtime.dataservice.wire import address
from dlc_runtime.dataservice.wire.lines import Lines

HANGS = 60.0  # seconds; only a bound
STEP = 0.5  # seconds of the keeper's clock from one look to the next: less than it takes for a time of its own halt
TOKEN = b"a token"
FACTS = {"epoch": 0, "batches": 6, "world": 2}


class Voice:
    """A rank's connection."""

    def __init__(self, port: int, rank: int) -> None:
        self.rank = rank
        self.heard: list[dict[str, Any]] = []
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

    def beat(self, number: int) -> None:
        """The keeper has heard of this rank, and of all that it said before."""
        self.say(number, beat=7.0)
        assert self.hear(number, "beat") == 7.0


class Clock:
    """Stands for the module `time` in the keeper."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


class Keepers:
    """Makes keepers and the ranks that speak to them; all end with the test."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.keepers: list[Keeper] = []
        self.voices: list[Voice] = []

    def keeper(self, when_lost: str = "fail", lost_after: float = HANGS, patience: float = HANGS) -> int:
        listener = address.listener("127.0.0.1")
        self.keepers.append(Keeper(listener, TOKEN, 2, when_lost, lost_after, patience))
        return int(listener.getsockname()[1])

    def voice(self, port: int, rank: int) -> Voice:
        self.voices.append(Voice(port, rank))
        return self.voices[-1]

    def stopped(self, lost_after: float) -> Keeper:
        """A keeper of which two ranks have batches, without its thread: the clock is the test's."""
        port = self.keeper(lost_after=lost_after)
        zero, one = self.voice(port, 0), self.voice(port, 1)
        zero.join(1)
        one.join(1)
        assert zero.hear(1, "ids")
        self.keepers[-1].close()
        return self.keepers.pop()

    def step(self) -> None:
        """Let a little time pass, and the keepers see it."""
        self.clock.now += STEP
        ends = time.monotonic() + HANGS
        while any(keeper._looked < self.clock.now for keeper in self.keepers):
            assert time.monotonic() < ends, "the keeper does not look at its clock"
            time.sleep(0.001)

    def step_until(self, voice: Voice, number: int, word: str) -> None:
        """Let time pass until the voice hears the word: a keeper reads what ranks say at some step, not the first."""
        ends = time.monotonic() + HANGS
        while not any(one["round"] == number and word in one for one in voice.heard):
            assert time.monotonic() < ends, f"it hangs; heard: {voice.heard}"
            self.step()
            voice.listen(0.01)

    def beat_until(self, voice: Voice, number: int, what: Callable[[], Any]) -> Any:
        """What is waited for, while time passes in which the keeper hears of one rank."""
        ends = time.monotonic() + HANGS
        while not (found := what()):
            assert time.monotonic() < ends, f"it hangs; heard: {voice.heard}"
            voice.beat(number)
            self.step()
        return found

    def close(self) -> None:
        for voice in self.voices:
            voice.lines.sock.close()
        for keeper in self.keepers:
            keeper.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    monkeypatch.setattr(module, "TICK", 0.01)  # in which a keeper looks at its clock where nobody speaks
    return found


@pytest.fixture
def keepers(clock: Clock) -> Iterator[Keepers]:
    found = Keepers(clock)
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
    one.beat(2)
    zero.say(1, leave=True)
    ends = time.monotonic() + HANGS

    def check() -> None:
        assert time.monotonic() < ends, "rank 0 waits for a rank that waits for rank 0"

    keepers.keepers[0].wait_for_all(1, check)
    zero.join(2, epoch=1)
    assert one.hear(2, "ids")


def test_a_lost_rank_that_comes_again_gets_what_is_left_and_nothing_is_given_twice(keepers: Keepers) -> None:
    port = keepers.keeper("give_back", lost_after=1.0)
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    one.join(1, more=3)
    zero.join(1, more=3)
    first, lost = zero.hear(1, "ids"), one.hear(1, "ids")
    zero.say(1, done=first, more=6)
    back = keepers.beat_until(zero, 1, lambda: [id_ for told in zero.heard for id_ in told.get("ids", ())])
    assert sorted(back) == sorted(lost)
    again = keepers.voice(port, 1)
    again.join(1, more=6)
    zero.say(1, done=back)  # nobody holds anything any more: the connection of before is not told it instead
    assert again.hear(1, "over") is True


def test_a_rank_that_was_started_again_alone_ends_and_the_others_go_on(keepers: Keepers) -> None:
    port = keepers.keeper()
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    for number in (1, 2, 3):
        one.join(number)
        zero.join(number)
        assert zero.hear(number, "ids")
        assert one.hear(number, "ids")
    again = keepers.voice(port, 1)
    again.join(1)
    assert "training rank 1 began anew, alone; start all ranks anew" in again.hear(1, "error")
    keepers.keepers[0].wait_for_all(1, nothing)  # nothing of it is left there
    assert not [told for told in [*zero.heard, *one.heard] if "error" in told]


def test_a_second_process_of_a_rank_is_refused_and_gets_nothing_of_the_first_one(keepers: Keepers) -> None:
    port = keepers.keeper()
    one, second, zero = keepers.voice(port, 1), keepers.voice(port, 1), keepers.voice(port, 0)
    one.join(1, more=1)
    second.join(1, more=5)
    assert "two processes say that they are training rank 1" in second.hear(1, "error")
    zero.join(1, more=1)
    assert sorted(one.hear(1, "ids") + zero.hear(1, "ids")) == [0, 1]
    second.say(1, beat=1.0)
    assert second.hear(1, "gone") is True
    assert not [told for told in second.heard if "ids" in told]


def test_while_a_rank_evaluates_between_epochs_the_others_wait_longer_than_the_patience(
    keepers: Keepers, caplog: pytest.LogCaptureFixture
) -> None:
    port = keepers.keeper(patience=2.0)
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    zero.join(1)
    one.join(1)
    for voice in (zero, one):
        voice.say(1, leave=True)
    one.join(2, epoch=1)
    keepers.beat_until(zero, 1, lambda: "the training ranks [0] have yet to begin the epoch" in caplog.text)
    zero.join(2, epoch=1)
    assert one.hear(2, "ids")
    assert not [told for told in one.heard if "error" in told]


@pytest.mark.parametrize("beats", [True, False])
def test_a_rank_that_does_not_begin_the_epoch_ends_the_others_wait_at_last(keepers: Keepers, beats: bool) -> None:
    port = keepers.keeper(patience=1.2)
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    zero.join(1)
    one.join(1)
    one.join(2, epoch=1)
    one.beat(2)
    if beats:
        keepers.beat_until(zero, 1, lambda: [told for told in zero.heard if "error" in told])
    else:
        keepers.step_until(one, 2, "error")
    error = one.hear(2, "error")
    assert error.startswith("the training ranks [0] did not begin the epoch")
    assert ("though they are there" in error) is beats


def test_the_epoch_after_a_rank_was_lost_begins_without_it_where_the_others_take_its_batches(keepers: Keepers) -> None:
    port = keepers.keeper("give_back", lost_after=2.0)
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    zero.join(1)
    one.join(1)
    assert zero.hear(1, "ids")
    zero.say(1, leave=True)
    one.lines.sock.close()
    zero.join(2, more=6, epoch=1)
    keepers.beat_until(zero, 2, lambda: [told for told in zero.heard if told["round"] == 2 and "ids" in told])
    assert zero.hear(2, "ids") == [*range(6)]


def test_a_time_in_which_rank_zero_itself_stood_still_makes_no_rank_lost(keepers: Keepers) -> None:
    keeper = keepers.stopped(lost_after=15.0)
    wakes = keepers.clock.now + 3600.0
    keeper._clock(wakes)
    assert {*keeper._rounds[1].heard} == {0, 1}
    for passed in range(1, 40):
        keeper._clock(wakes + passed / 2)
    assert not keeper._rounds[1].heard


def test_a_time_in_which_rank_zero_stood_still_ends_no_wait_for_a_rank_that_is_not_known_yet(keepers: Keepers) -> None:
    zero = keepers.voice(keepers.keeper(patience=30.0), 0)
    zero.join(1)
    zero.beat(1)
    keeper = keepers.keepers.pop()
    keeper.close()  # its thread: the clock is this test's
    wakes = keepers.clock.now + 3600.0
    keeper._clock(wakes)
    assert keeper._rounds[1].began < wakes  # an error begins the wait anew
    keeper._clock(wakes + 0.5)
    assert keeper._rounds[1].began < wakes


def test_a_lost_rank_is_found_out_though_rank_zero_stands_still_in_each_step(keepers: Keepers) -> None:
    keeper = keepers.stopped(lost_after=15.0)
    began = keepers.clock.now
    for step in range(1, 40):
        keeper._clock(began + 2.0 * step)
    assert not keeper._rounds[1].heard


def test_a_rank_between_epochs_hears_that_the_keeper_is_there(keepers: Keepers) -> None:
    port = keepers.keeper()
    zero, one = keepers.voice(port, 0), keepers.voice(port, 1)
    zero.join(1)
    one.join(1)
    one.say(1, leave=True)
    one.beat(1)


def test_a_time_in_which_rank_zero_stood_still_is_not_taken_off_a_strangers_handshake(keepers: Keepers) -> None:
    keeper = keepers.stopped(lost_after=HANGS)
    pair = socket.socketpair()
    stranger = Lines(pair[0], TOKEN, is_server=True)
    fd = stranger.sock.fileno()
    keeper._lines[fd], keeper._strangers[fd] = stranger, keepers.clock.now + module.HANDSHAKE
    dropped: list[int] = []
    keeper._drop = dropped.append  # type: ignore[method-assign]
    wakes = keepers.clock.now + 3600.0
    keeper._clock(wakes)
    assert not dropped
    for passed in range(2 * int(module.HANDSHAKE) + 3):
        keeper._clock(wakes + passed / 2)
    assert fd in dropped
    for end in pair:
        end.close()
