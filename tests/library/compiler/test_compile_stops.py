"""A job that is stopped or killed while it compiles or trains leaves its report, and no process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from torch_runs import HANGS, Run, Runner, functions, read_results

MARK = "DLC_TEST_MARK"


def processes(mark: str) -> set[int]:
    """All that have the mark in their environment, whatever session or group they made for themselves."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes() and not is_ended(folder):
                found.add(int(folder.name))
    return found


def is_ended(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    log = ""
    while word not in log:
        line = process.stdout.readline()
        assert line, log
        log += line
    return log


def wait_for_end(mark: str) -> set[int]:
    """What is left when it no longer changes, or after a bound that only a hang reaches."""
    end = time.monotonic() + 60
    while (left := processes(mark)) and time.monotonic() < end:
        time.sleep(0.2)
    return left


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_the_report_of_a_killed_rank_is_kept(runner: Runner, stop: signal.Signals) -> None:
    process, folder = runner.start(("long.py", "40"), "inductor", {})
    try:
        log = read_until(process, "ready")
    finally:
        os.killpg(process.pid, stop)
        process.communicate(timeout=HANGS)
    run = Run(process.returncode, log, {}, folder)
    assert run.code == -stop
    assert run.report["steps"]["count"] >= 32
    assert functions(run.report, "graphs") == {"Net"}
    assert [rank["state"] for rank in run.report["ranks"]] == ["running"]


def test_a_report_is_written_every_few_minutes_while_the_job_trains(runner: Runner) -> None:
    process, folder = runner.start(("long.py", "20"), "inductor", {"DLC_COMPILER_REPORT_MINUTES": "0.005"})
    try:
        read_until(process, "ready")
        counts: set[int] = set()
        end = time.monotonic() + HANGS
        while not any(count & (count - 1) for count in counts if count > 20):  # the others are written by their number
            assert time.monotonic() < end, counts
            counts.add(json.loads((folder / "report/report.json").read_text())["steps"]["count"])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=HANGS)


def test_a_script_that_is_stopped_while_it_compiles_saves_and_leaves_no_process(runner: Runner, tmp_path: Path) -> None:
    mark = str(tmp_path)
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cold")}
    process, folder = runner.start(("saves.py",), "inductor", {MARK: mark, **cache})
    try:
        log = read_until(process, "compiling Net")
        end = time.monotonic() + HANGS
        while len(processes(mark)) < 2:  # its compiler runs
            assert process.poll() is None, log
            assert time.monotonic() < end
        process.send_signal(signal.SIGTERM)
        log += process.communicate(timeout=HANGS)[0]
        assert process.returncode == 3, log
        assert "never stopped" not in log
        assert read_results(folder / "results")[0]["losses"] == [0.0]
        assert log.splitlines()[-1] == "saved, says the script", log
        headline = json.loads((folder / "report/report.json").read_text())["headline"]
        assert headline["verdict"].startswith("Stopped after 5 steps while Net was compiled, after ")
        [entry] = json.loads((folder / "report/report.json").read_text())["compiling"]
        assert entry["function"] == "Net"
        assert wait_for_end(mark) == set()
    finally:
        for number in processes(mark):
            os.kill(number, signal.SIGKILL)


def test_the_last_words_of_a_job_that_is_stopped_while_it_trains_are_the_scripts(runner: Runner) -> None:
    process, _ = runner.start(("saves_in_training.py",), "inductor", {})
    log = read_until(process, "ready")
    process.send_signal(signal.SIGTERM)
    log += process.communicate(timeout=HANGS)[0]
    assert process.returncode == 3, log
    assert log.splitlines()[-1] == "saved, says the script", log


def test_while_a_stopped_script_saves_nothing_is_said_to_be_compiling(runner: Runner) -> None:
    assert runner.run("saves_long.py", compiler="").results[0] == {"told": 0, "more": 0}
