"""PendingConnections: seats for those who have proved nothing."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack

import pytest

from dlc_channel.channel import PROOF_SECONDS, Channel, PendingConnections, limit_seats


def channels(stack: ExitStack, count: int) -> list[Channel]:
    ends = [end for _ in range(count) for end in map(stack.enter_context, socket.socketpair())]
    return [Channel(end, b"k" * 32, "group", is_server=True) for end in ends[::2]]


def test_when_all_seats_are_taken_the_address_with_most_loses_its_oldest() -> None:
    with ExitStack() as stack:
        crowd = PendingConnections(3)
        first, second, third, late = channels(stack, 4)
        assert [crowd.add(first, "a"), crowd.add(second, "b"), crowd.add(third, "b")] == [None, None, None]
        assert crowd.add(late, "c") is second
        crowd.discard(second)
        assert crowd.to_evict() is first


@pytest.mark.parametrize(("files", "seats"), [(-1, 256), (1 << 20, 256), (1024, 256), (256, 64), (3, 1)])
def test_those_who_have_proved_nothing_take_a_quarter_of_the_descriptors(
    files: int, seats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's and a training rank's own code opens files, and would fail without one left."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert limit_seats() == seats


def test_of_few_descriptors_most_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (40, 40))
    with ExitStack() as stack:
        crowd = PendingConnections()
        arrived = channels(stack, 11)
        assert [crowd.add(each, "a") for each in arrived] == [None] * 10 + [arrived[0]]


def test_nobody_makes_room_where_nobody_is() -> None:
    assert PendingConnections(1).to_evict() is None


def test_who_proves_nothing_has_its_time_and_no_more() -> None:
    with ExitStack() as stack:
        crowd = PendingConnections(3)
        first, second = channels(stack, 2)
        second.opened_at = first.opened_at + 1
        for each in (first, second):
            crowd.add(each, "a")
        assert crowd.overdue(first.opened_at + PROOF_SECONDS) == []
        assert crowd.overdue(first.opened_at + PROOF_SECONDS + 0.5) == [first]
        crowd.discard(first)
        assert crowd.overdue(first.opened_at + PROOF_SECONDS + 2) == [second]


def test_time_in_which_nobody_was_listened_to_does_not_count() -> None:
    with ExitStack() as stack:
        crowd = PendingConnections(3)
        (first,) = channels(stack, 1)
        crowd.add(first, "a")
        late = first.opened_at + PROOF_SECONDS + 5
        crowd.excuse(20)
        assert crowd.overdue(late) == []
        assert crowd.overdue(late + 20) == [first]
