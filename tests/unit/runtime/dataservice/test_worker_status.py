"""The time in which a host ran, told from the times at which it looked at the clock."""

from __future__ import annotations

import time

import pytest

from dlc_runtime.dataservice.server.worker_status import EVERY, HALT, Halts


@pytest.fixture
def start() -> float:
    return time.monotonic() + 100.0


@pytest.fixture
def halts(start: float) -> Halts:
    found = Halts()
    found.look(start)
    return found


def test_a_host_that_looks_often_ran_all_the_time(halts: Halts, start: float) -> None:
    for look in range(1, 40):
        halts.look(start + look * EVERY)
    assert halts.ran(start + 1, start + 40 * EVERY) == pytest.approx(40 * EVERY - 1)


def test_the_time_without_a_look_does_not_count(halts: Halts, start: float) -> None:
    halts.look(start + 0.5)
    halts.look(start + 30.5)
    assert halts.ran(start, start + 31) == pytest.approx(1.0)


def test_a_halt_counts_only_where_it_meets_the_time_asked_for(halts: Halts, start: float) -> None:
    halts.look(start + 30)
    assert halts.ran(start + 20, start + 30.5) == pytest.approx(0.5)
    assert halts.ran(start + 30.1, start + 30.5) == pytest.approx(0.4)


def test_a_halt_that_nobody_looked_at_yet_is_seen_by_who_asks(halts: Halts, start: float) -> None:
    assert halts.ran(start, start + 30) == pytest.approx(0.0)


def test_a_look_that_is_a_little_late_is_no_halt(halts: Halts, start: float) -> None:
    assert halts.ran(start, start + HALT * 0.9) == pytest.approx(HALT * 0.9)
