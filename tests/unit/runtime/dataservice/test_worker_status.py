"""The time in which a host ran, told from the times at which it looked at the clock."""

from __future__ import annotations

import time

import pytest

from dlc_runtime.dataservice.server.worker_status import LOOK_SECONDS, PAUSE_SECONDS, HostPauses


@pytest.fixture
def start() -> float:
    return time.monotonic() + 100.0


@pytest.fixture
def pauses(start: float) -> HostPauses:
    found = HostPauses()
    found.note_time(start)
    return found


def test_a_host_that_looks_often_ran_all_the_time(pauses: HostPauses, start: float) -> None:
    for look in range(1, 40):
        pauses.note_time(start + look * LOOK_SECONDS)
    assert pauses.running_seconds(start + 1, start + 40 * LOOK_SECONDS) == pytest.approx(40 * LOOK_SECONDS - 1)


def test_the_time_without_a_look_does_not_count(pauses: HostPauses, start: float) -> None:
    pauses.note_time(start + 0.5)
    pauses.note_time(start + 30.5)
    assert pauses.running_seconds(start, start + 31) == pytest.approx(1.0)


def test_a_pause_counts_only_where_it_meets_the_time_asked_for(pauses: HostPauses, start: float) -> None:
    pauses.note_time(start + 30)
    assert pauses.running_seconds(start + 20, start + 30.5) == pytest.approx(0.5)
    assert pauses.running_seconds(start + 30.1, start + 30.5) == pytest.approx(0.4)


def test_a_pause_that_nobody_looked_at_yet_is_seen_by_who_asks(pauses: HostPauses, start: float) -> None:
    assert pauses.running_seconds(start, start + 30) == pytest.approx(0.0)


def test_a_look_that_is_a_little_late_is_no_pause(pauses: HostPauses, start: float) -> None:
    assert pauses.running_seconds(start, start + PAUSE_SECONDS * 0.9) == pytest.approx(PAUSE_SECONDS * 0.9)
