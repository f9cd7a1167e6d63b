"""Training rank 0's lease server, spoken to as the ranks do: ends of epochs, ranks that are ahead or gone.

The server's clock is the tests': it stands still but where a test lets time pass, so no slow host makes a rank late.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dlc_channel.channel import PROOF_SECONDS
from dlc_runtime.dataservice.client import lease_server as module
from dlc_runtime.dataservice.client.lease_server import LeaseServer, open_channel
from dlc_runtime.dataservice.wire import addresses

HANGS = 60.0  # seconds; only a bound
STEP = 0.5  # seconds of the server's clock from one look to the next: less than it takes for a time of its own halt
TOKEN = b"a token"
FACTS = {"epoch": 0, "batches": 6, "world": 2}


class Voice:
    """A rank's connection."""

    def __init__(self, port: int, rank: int) -> None:
        self.rank = rank
        self.heard: list[dict[str, Any]] = []
        self.lines = open_channel(socket.create_connection(("127.0.0.1", port), timeout=HANGS), TOKEN, is_server=False)
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
        if select.select([self.lines.socket], [], [], seconds)[0]:
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
        """The server has heard of this rank, and of all that it said before."""
        self.say(number, beat=7.0)
        assert self.hear(number, "beat") == 7.0


class Clock:
    """Stands for the module `time` in the server."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


class LeaseServers:
    """Makes servers and the ranks that speak to them; all end with the test."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.running: list[LeaseServer] = []
        self.voices: list[Voice] = []

    def listen(self, when_lost: str = "fail", lost_after: float = HANGS, patience: float = HANGS) -> int:
        listener = addresses.open_listener("127.0.0.1")
        self.running.append(LeaseServer(listener, TOKEN, 2, when_lost, lost_after, patience))
        return int(listener.getsockname()[1])

    def voice(self, port: int, rank: int) -> Voice:
        self.voices.append(Voice(port, rank))
        return self.voices[-1]

    def stopped(self, lost_after: float) -> LeaseServer:
        """A server of which two ranks have batches, without its thread: the clock is the test's."""
        port = self.listen(lost_after=lost_after)
        zero, one = self.voice(port, 0), self.voice(port, 1)
        zero.join(1)
        one.join(1)
        assert zero.hear(1, "ids")
        self.running[-1].close()
        return self.running.pop()

    def step(self) -> None:
        """Let a little time pass, and the servers see it."""
        self.clock.now += STEP
        ends = time.monotonic() + HANGS
        while any(server._ticked_at < self.clock.now for server in self.running):
            assert time.monotonic() < ends, "the server does not look at its clock"
            time.sleep(0.001)

    def step_until(self, voice: Voice, number: int, word: str) -> None:
        """Let time pass until the voice hears the word: a server reads what ranks say at some step, not the first."""
        ends = time.monotonic() + HANGS
        while not any(one["round"] == number and word in one for one in voice.heard):
            assert time.monotonic() < ends, f"it hangs; heard: {voice.heard}"
            self.step()
            voice.listen(0.01)

    def beat_until(self, voice: Voice, number: int, what: Callable[[], Any]) -> Any:
        """What is waited for, while time passes in which the server hears of one rank."""
        ends = time.monotonic() + HANGS
        while not (found := what()):
            assert time.monotonic() < ends, f"it hangs; heard: {voice.heard}"
            voice.beat(number)
            self.step()
        return found

    def close(self) -> None:
        for voice in self.voices:
            voice.lines.socket.close()
        for server in self.running:
            server.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)  # in which a server looks at its clock where nobody speaks
    return found


@pytest.fixture
def servers(clock: Clock) -> Iterator[LeaseServers]:
    found = LeaseServers(clock)
    yield found
    found.close()


def nothing() -> None:
    """No error of the prefetcher's."""


def test_rank_zero_ends_its_epoch_though_another_rank_waits_in_the_next_one(servers: LeaseServers) -> None:
    port = servers.listen()
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
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

    servers.running[0].wait_for_all(1, check)
    zero.join(2, epoch=1)
    assert one.hear(2, "ids")


def test_a_lost_rank_that_comes_again_gets_what_is_left_and_nothing_is_given_twice(servers: LeaseServers) -> None:
    port = servers.listen("give_back", lost_after=1.0)
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
    one.join(1, more=3)
    zero.join(1, more=3)
    first, lost = zero.hear(1, "ids"), one.hear(1, "ids")
    zero.say(1, done=first, more=6)
    back = servers.beat_until(zero, 1, lambda: [id_ for told in zero.heard for id_ in told.get("ids", ())])
    assert sorted(back) == sorted(lost)
    again = servers.voice(port, 1)
    again.join(1, more=6)
    zero.say(1, done=back)  # nobody holds anything any more: the connection of before is not told it instead
    assert again.hear(1, "over") is True


def test_a_rank_that_was_started_again_alone_ends_and_the_others_go_on(servers: LeaseServers) -> None:
    port = servers.listen()
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
    for number in (1, 2, 3):
        one.join(number)
        zero.join(number)
        assert zero.hear(number, "ids")
        assert one.hear(number, "ids")
    again = servers.voice(port, 1)
    again.join(1)
    assert "training rank 1 began anew, alone; start all ranks anew" in again.hear(1, "error")
    servers.running[0].wait_for_all(1, nothing)  # nothing of it is left there
    assert not [told for told in [*zero.heard, *one.heard] if "error" in told]


def test_a_second_process_of_a_rank_is_refused_and_gets_nothing_of_the_first_one(servers: LeaseServers) -> None:
    port = servers.listen()
    one, second, zero = servers.voice(port, 1), servers.voice(port, 1), servers.voice(port, 0)
    one.join(1, more=1)
    second.join(1, more=5)
    assert "two processes say that they are training rank 1" in second.hear(1, "error")
    zero.join(1, more=1)
    assert sorted(one.hear(1, "ids") + zero.hear(1, "ids")) == [0, 1]
    second.say(1, beat=1.0)
    assert second.hear(1, "gone") is True
    assert not [told for told in second.heard if "ids" in told]


def test_while_a_rank_evaluates_between_epochs_the_others_wait_longer_than_the_patience(
    servers: LeaseServers, caplog: pytest.LogCaptureFixture
) -> None:
    port = servers.listen(patience=2.0)
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
    zero.join(1)
    one.join(1)
    for voice in (zero, one):
        voice.say(1, leave=True)
    one.join(2, epoch=1)
    servers.beat_until(zero, 1, lambda: "the training ranks [0] have yet to begin the epoch" in caplog.text)
    zero.join(2, epoch=1)
    assert one.hear(2, "ids")
    assert not [told for told in one.heard if "error" in told]


@pytest.mark.parametrize("beats", [True, False])
def test_a_rank_that_does_not_begin_the_epoch_ends_the_others_wait_at_last(servers: LeaseServers, beats: bool) -> None:
    port = servers.listen(patience=1.2)
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
    zero.join(1)
    one.join(1)
    one.join(2, epoch=1)
    one.beat(2)
    if beats:
        servers.beat_until(zero, 1, lambda: [told for told in zero.heard if "error" in told])
    else:
        servers.step_until(one, 2, "error")
    error = one.hear(2, "error")
    assert error.startswith("the training ranks [0] did not begin the epoch")
    assert ("though they are there" in error) is beats


def test_the_epoch_after_a_rank_was_lost_begins_without_it_where_the_others_take_its_batches(
    servers: LeaseServers,
) -> None:
    port = servers.listen("give_back", lost_after=2.0)
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
    zero.join(1)
    one.join(1)
    assert zero.hear(1, "ids")
    zero.say(1, leave=True)
    one.lines.socket.close()
    zero.join(2, more=6, epoch=1)
    servers.beat_until(zero, 2, lambda: [told for told in zero.heard if told["round"] == 2 and "ids" in told])
    assert zero.hear(2, "ids") == [*range(6)]


def test_a_time_in_which_rank_zero_itself_stood_still_makes_no_rank_lost(servers: LeaseServers) -> None:
    server = servers.stopped(lost_after=15.0)
    wakes = servers.clock.now + 3600.0
    server._tick(wakes)
    assert {*server._rounds[1].heard} == {0, 1}
    for passed in range(1, 40):
        server._tick(wakes + passed / 2)
    assert not server._rounds[1].heard


def test_a_time_in_which_rank_zero_stood_still_ends_no_wait_for_a_rank_that_is_not_known_yet(
    servers: LeaseServers,
) -> None:
    zero = servers.voice(servers.listen(patience=30.0), 0)
    zero.join(1)
    zero.beat(1)
    server = servers.running.pop()
    server.close()  # its thread: the clock is this test's
    wakes = servers.clock.now + 3600.0
    server._tick(wakes)
    assert server._rounds[1].began < wakes  # an error begins the wait anew
    server._tick(wakes + 0.5)
    assert server._rounds[1].began < wakes


def test_a_lost_rank_is_found_out_though_rank_zero_stands_still_in_each_step(servers: LeaseServers) -> None:
    server = servers.stopped(lost_after=15.0)
    began = servers.clock.now
    for step in range(1, 40):
        server._tick(began + 2.0 * step)
    assert not server._rounds[1].heard


def test_a_rank_between_epochs_hears_that_the_keeper_is_there(servers: LeaseServers) -> None:
    port = servers.listen()
    zero, one = servers.voice(port, 0), servers.voice(port, 1)
    zero.join(1)
    one.join(1)
    one.say(1, leave=True)
    one.beat(1)


def test_a_time_in_which_rank_zero_stood_still_is_not_taken_off_a_strangers_handshake(servers: LeaseServers) -> None:
    server = servers.stopped(lost_after=HANGS)
    pair = socket.socketpair()
    stranger = open_channel(pair[0], TOKEN, is_server=True)
    stranger.opened_at = servers.clock.now
    fd = stranger.fileno()
    server._channels[fd] = stranger
    assert server._pending.add(stranger, "127.0.0.1") is None
    dropped: list[int] = []
    server._drop = dropped.append  # type: ignore[assignment]
    wakes = servers.clock.now + 3600.0
    server._tick(wakes)
    assert not dropped
    for passed in range(2 * int(PROOF_SECONDS) + 3):
        server._tick(wakes + passed / 2)
    assert fd in dropped
    for end in pair:
        end.close()
