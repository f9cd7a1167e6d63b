"""What fetching batches costs, as workers tell it: parts of the time, slow batches, what a worker sleeps in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlc_runtime.profile import fetches, resources
from dlc_runtime.profile.fetches import (
    Asleep,
    Fetches,
    WorkerFile,
    classify,
    find_slow,
    is_fetching,
    queued_seconds,
    read_fetches,
)
from dlc_runtime.profile.meter import Clock, Meter


def test_a_worker_tells_its_fetches_and_the_seconds_of_each_but_the_first(tmp_path: Path) -> None:
    file = WorkerFile(str(tmp_path))
    for _ in range(4):
        file.begin()
        assert is_fetching(str(tmp_path / str(os.getpid())))
        file.end()
    assert not is_fetching(str(tmp_path / str(os.getpid())))
    total, durations = read_fetches(str(tmp_path), {os.getpid(), 1})
    assert (total.batches, len(durations)) == (4, 3)
    assert all(0 <= seconds <= total.seconds for seconds in durations)


def test_of_many_fetches_the_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "KEPT_FETCHES", 3)
    file = WorkerFile(str(tmp_path))
    for _ in range(9):
        file.begin()
        file.end()
    total, durations = read_fetches(str(tmp_path), {os.getpid()})
    assert (total.batches, len(durations)) == (9, 3)


@pytest.mark.parametrize(
    ("durations", "slow", "share"),
    [
        ([], 0, 0.0),
        ([0.0] * 20, 0, 0.0),
        ([0.01] * 20, 0, 0.0),
        ([0.01] * 19 + [0.04], 0, 0.0),  # not 5 times the median
        ([0.01] * 19 + [0.19], 1, 0.5),
        ([0.01] * 18 + [0.09, 0.09], 2, 0.5),
        ([0.01] * 15 + [0.15] * 5, 2, 0.333),  # a quarter is no tenth: the others are as slow
        ([0.01] * 9, 0, 0.0),
    ],
)
def test_few_batches_that_take_many_times_the_median_are_slow(durations: list[float], slow: int, share: float) -> None:
    assert tuple(find_slow(durations)) == (slow, len(durations), pytest.approx(share, abs=0.001))


def test_time_in_a_line_makes_no_batch_a_slow_one() -> None:
    meter = Meter(Clock(lambda: None), skip=0)
    for queued in (0.0, 0.0, 0.9):
        meter.add_fetch(Fetches(1, 0.1, 0.1 + queued, queued))
    assert list(meter.durations) == [pytest.approx(0.1), pytest.approx(0.1)]
    assert meter.in_process.batches == 3


def test_the_line_of_the_training_thread_is_counted_in_its_waits_alone() -> None:
    time, line = [0.0], [0.0]
    meter = Meter(Clock(lambda: None, lambda: time[0], queued=lambda: line[0]), skip=0)
    for waits, queues in ((5.0, 5.0), (0.5, 0.2), (0.25, 0.75)):
        meter.ask()
        time[0] += waits
        line[0] += queues
        meter.got(b"batch")
        time[0] += 1.0
        line[0] += 0.1
    meter.ask()
    assert (meter.waiting, meter.queued) == (0.75, pytest.approx(0.2 + 0.25))  # no more than the wait itself


def test_a_kernel_that_does_not_tell_lines_is_unknown_and_not_none_at_all(tmp_path: Path) -> None:
    assert queued_seconds(str(tmp_path / "absent")) is None
    (tmp_path / "schedstat").write_text("1238306 1500000000 1\n")
    assert queued_seconds(str(tmp_path / "schedstat")) == 1.5
    meter = Meter(Clock(lambda: None), skip=0)
    for _ in range(3):
        meter.ask()
        meter.got(b"batch")
    assert meter.queued == 0.0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hrtimer_nanosleep", "sleep"), ("futex_do_wait", "lock"), ("folio_wait_bit_common", "files"),
        ("request_wait_answer", "files"), ("rpc_wait_bit_killable", "files"), ("wait_woken", "sockets"),
        ("do_poll.constprop.0", "sockets"), ("unix_stream_data_wait", "sockets"), ("anon_pipe_read", "pipes"),
        ("do_wait", "programs"), ("something_else", "other"), ("0", None), ("", None),
    ],
)  # fmt: skip
def test_the_kernels_word_tells_what_a_process_waits_in(name: str, kind: str | None) -> None:
    assert classify(name) == kind


def test_only_a_worker_that_fetches_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "classify", lambda name: "files")
    looks, file = Asleep(), WorkerFile(str(tmp_path))
    looks.look(str(tmp_path), [])
    looks.look(str(tmp_path), [os.getpid()])
    assert looks.seen == {}
    file.begin()
    looks.look(str(tmp_path), [os.getpid()])
    looks.look(str(tmp_path), [1])
    assert looks.seen == {"files": 1}


def test_one_rank_on_a_plain_host_counts_its_own_processes_and_a_container_all_of_them(tmp_path: Path) -> None:
    assert resources.seconds_of_job(90.0, 10.0, alone=True) == 10.0
    assert resources.seconds_of_job(90.0, 10.0, alone=False) == 90.0
    assert resources.seconds_of_job(None, 10.0, alone=False) == 10.0
    assert not resources.is_whole_host(str(tmp_path))
    (tmp_path / "cpu.stat").touch()
    assert resources.is_whole_host(str(tmp_path))
    (tmp_path / "cgroup.type").touch()
    assert not resources.is_whole_host(str(tmp_path))


def test_what_the_host_below_took_is_read_from_the_kernels_file(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 2 3 4 5 6 7 800 0 0\n")
    assert resources.stolen_seconds(str(tmp_path / "stat")) == 800 / resources.TICKS
    assert resources.stolen_seconds(str(tmp_path / "absent")) is None
