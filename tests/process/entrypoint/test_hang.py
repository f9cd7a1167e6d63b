"""hang: a job that neither writes nor computes is ended, with every Python stack in the report."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts import LEADER, Job
from supervised import Script, run

from launch.supervision import process_tree
from launch.supervision.hang import Watchdog

HANG_CODE = 124
WAITS = """
import threading, time
def waits_for_a_gradient():
    threading.Event().wait()
print('training')
waits_for_a_gradient()
"""


class Clock:
    """Time and CPU use as a test wants them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.ticks = {11: 1000}
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(process_tree, "find_descendants", lambda: list(self.ticks))
        monkeypatch.setattr(process_tree, "cpu_ticks", lambda pid: self.ticks[pid])
        monkeypatch.setattr(os, "sysconf", lambda _name: 100)

    def pass_by(self, watchdog: Watchdog, seconds: float, *, bytes_per_second: int = 0, cores: float = 0.0) -> bool:
        """Look once a second; whether it barked."""
        barked = False
        for second in range(int(seconds)):
            self.now += 1
            self.ticks = {pid: ticks + int(cores * 100) for pid, ticks in self.ticks.items()}
            barked = watchdog.is_hung(bytes_per_second * (second + 1)) or barked
        return barked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_it_is_off_by_default(clock: Clock) -> None:
    assert not clock.pass_by(Watchdog(0.0), 10_000)


def test_silence_without_cpu_use_is_a_hang_after_the_timeout(clock: Clock) -> None:
    watchdog = Watchdog(60)
    assert not clock.pass_by(watchdog, 59)
    assert clock.pass_by(watchdog, 25)


def test_output_is_progress(clock: Clock) -> None:
    assert not clock.pass_by(Watchdog(60), 1000, bytes_per_second=1)


def test_cpu_use_is_progress(clock: Clock) -> None:
    assert not clock.pass_by(Watchdog(60), 1000, cores=0.5)


def test_background_threads_that_wake_up_now_and_then_are_no_progress(clock: Clock) -> None:
    watchdog = Watchdog(60)
    assert not clock.pass_by(watchdog, 10, cores=1.0)
    clock.ticks = {11: 0}
    barked = False
    for second in range(200):
        clock.now += 1
        clock.ticks[11] += second % 2  # 0.5% of a core
        barked = watchdog.is_hung(0) or barked
    assert barked


def test_a_pause_of_the_whole_container_is_no_hang(clock: Clock) -> None:
    watchdog = Watchdog(60)
    clock.pass_by(watchdog, 10, cores=1.0)
    clock.now += 10_000
    assert not watchdog.is_hung(0)


def test_a_process_that_came_between_two_looks_counts(clock: Clock) -> None:
    watchdog = Watchdog(60)
    barked = False
    for second in range(300):
        clock.now += 1
        clock.ticks[second] = 50
        barked = watchdog.is_hung(0) or barked
    assert not barked


def with_faulthandler(source: str, rank: int) -> Script:
    argv = (sys.executable, "-X", "faulthandler", "-u", "-c", source)
    return Script("", rank=rank, argv=argv)


def test_a_job_that_hangs_is_ended_with_the_stacks_of_every_rank(tmp_path: Path) -> None:
    done = run(tmp_path, *(with_faulthandler(WAITS, rank) for rank in range(3)), hang_timeout=1.0)
    assert done.exit_code == HANG_CODE
    assert done.failure["cause"].startswith("the job hangs on algo-1: no output and no CPU use for 1 s")
    sections = done.failure["details"].split("--- ")[1:]
    assert [section.split(",")[0] for section in sections] == ["worker rank 0", "worker rank 1", "worker rank 2"]
    assert all("in waits_for_a_gradient" in section for section in sections)


def test_a_rank_below_another_program_is_named_by_its_variable(tmp_path: Path) -> None:
    agent = f"""
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, '-X', 'faulthandler', '-c', {WAITS!r}], env=dict(os.environ, RANK=str(n)))
         for n in (4, 5)]
for rank in ranks: rank.wait()
"""
    done = run(tmp_path, with_faulthandler(agent, 4), hang_timeout=1.0)
    sections = done.failure["details"].split("--- ")[1:]
    assert sections[0].startswith("worker rank 4, process")
    assert [section.split(",")[0] for section in sections[1:]] == ["rank 4", "rank 5"]
    assert all("in waits_for_a_gradient" in section for section in sections[1:])
    assert "in wait" in sections[0]


def test_a_rank_that_takes_long_to_write_its_stacks_on_a_busy_host_has_the_time_for_it(tmp_path: Path) -> None:
    slow = """
import os, signal, sys, time
def abort(*_):
    time.sleep(3)
    print('late words', file=sys.stderr, flush=True)
    os._exit(1)
signal.signal(signal.SIGABRT, abort)
time.sleep(600)
"""
    done = run(tmp_path, Script(slow), hang_timeout=1.0)
    assert done.failure["details"].endswith("late words")


def test_a_rank_stuck_in_c_code_with_the_interpreter_lock_shows_its_stack(tmp_path: Path) -> None:
    stuck = """
import ctypes
def never_returns():
    ctypes.PyDLL(None).pause()
never_returns()
"""
    done = run(tmp_path, with_faulthandler(stuck, 0), hang_timeout=1.0)
    assert "in never_returns" in done.failure["details"]


def test_a_rank_without_faulthandler_is_said_to_have_no_stack(tmp_path: Path) -> None:
    done = run(tmp_path, "import time; time.sleep(600)", hang_timeout=1.0)
    assert done.exit_code == HANG_CODE
    assert "PYTHONFAULTHANDLER=1" in done.failure["details"]


def test_a_job_that_writes_now_and_then_is_left_alone(tmp_path: Path) -> None:
    writes = "import time\nfor n in range(8): print(n); time.sleep(0.25)"
    assert run(tmp_path, writes, hang_timeout=1.0).exit_code == 0


def test_a_hang_on_one_host_brings_the_stacks_of_the_others(tmp_path: Path) -> None:
    with Job(tmp_path, (LEADER, "algo-2")) as job:
        hanging = job.start(LEADER, WAITS, hang_timeout=1.0)
        other = job.start("algo-2", WAITS)
        for host in (hanging, other):
            host.finish()
            assert host.exit_code == HANG_CODE
            assert f"the job hangs on {LEADER}" in host.cause
            assert "in waits_for_a_gradient" in host.outcome["failure"]["details"]


# It computes, but other programs take the processor: below 1 % of a core is left to it.
STARVED = """
import os, pathlib, time
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
group = pathlib.Path('/proc/self/autogroup')  # of its session
if group.exists(): group.write_text('19')
pathlib.Path('ready').touch()
end = time.monotonic() + 8
while time.monotonic() < end: pass
os.write(1, b'trained')
os._exit(0)
"""
TAKES_THE_PROCESSOR = "import os\nos.sched_setaffinity(0, {cpu})\nwhile True: pass"


def test_a_rank_that_other_programs_keep_from_running_does_not_hang(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    busy = [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TAKES_THE_PROCESSOR.replace("{cpu}", f"{{{cpu}}}")],
            start_new_session=True,
        )
        for _ in range(4)
    ]
    try:
        done = run(tmp_path, STARVED.replace("{cpu}", f"{{{cpu}}}"), hang_timeout=3.0)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert (done.exit_code, done.stdout) == (0, b"trained"), done.stderr.decode()
