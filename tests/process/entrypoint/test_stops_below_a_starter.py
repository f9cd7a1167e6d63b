"""A stop of ranks whose starter is below the launcher, as torchrun and mpirun are: they save; none is blamed for it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from supervised import Run, Script, start, wait_for

from launch.base import process_spec

# What torchrun and mpirun have in common: when one rank ends badly, the others are killed at once.
STARTER = """
import os, subprocess, sys, time
ranks = [subprocess.Popen([sys.executable, '-I', '-S', sys.argv[1], '-c', source], start_new_session=True,
         env=dict(os.environ, RANK=str(n))) for n, source in enumerate(sys.argv[2:])]
while any(rank.poll() is None for rank in ranks):
    if any(rank.poll() for rank in ranks):
        for rank in ranks: rank.poll() is None and os.killpg(rank.pid, 9)
        sys.exit('a rank failed')
    time.sleep(0.01)
"""
RANK = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep({seconds})
    with open('checkpoint-' + os.environ['RANK'], 'a') as file: file.write('saved ')
    os._exit({code})
{handler}
pathlib.Path('ready-' + os.environ['RANK']).touch()
time.sleep(600)
"""


def stop(running: Run) -> Run:
    running.process.send_signal(signal.SIGTERM)
    return running.finish()


def below_a_starter(folder: Path, *ranks: str, **settings: object) -> Run:
    """Ranks with their parents below a program called mpirun."""
    (folder / "mpirun").write_text(STARTER)
    argv = (sys.executable, str(folder / "mpirun"), process_spec.program_path("torch_rank"), *ranks)
    env = {
        "PATH": os.environ["PATH"], "CURRENT_HOST": "algo-1", "PYTHON_EXEC": "x", "DLC_RANK_PYTHON": sys.executable,
        "DLC_RANK_FOLDER": str(folder / "ranks"), "PYTHONFAULTHANDLER": "1",
    }  # fmt: skip
    before = f"specs = [spec._replace(env={env!r}) for spec in specs]"
    settings = {"rank_folder": str(folder / "ranks"), "prefix": False, **settings}
    running = start(folder, Script("", role="mpirun", argv=argv), before=before, **settings)
    for number in range(len(ranks)):
        wait_for(folder / f"ready-{number}")
    return running


def rank(seconds: float = 0.0, code: int = 0, *, handles: bool = True) -> str:
    handler = "signal.signal(signal.SIGTERM, save)" if handles else ""
    return RANK.format(seconds=seconds, code=code, handler=handler)


def test_ranks_below_a_starter_save_and_end_well(tmp_path: Path) -> None:
    done = stop(below_a_starter(tmp_path, rank(), rank(0.5)))
    assert [(tmp_path / f"checkpoint-{n}").read_text() for n in (0, 1)] == ["saved ", "saved "]
    assert done.exit_code == 0, done.stderr.decode()
    assert done.outcome["failure"] is None


@pytest.mark.parametrize("other", [rank(code=3), rank(handles=False)], ids=["exits with 3", "is ended by SIGTERM"])
def test_a_rank_that_ends_badly_after_a_stop_takes_nothing_from_one_that_saves(tmp_path: Path, other: str) -> None:
    done = stop(below_a_starter(tmp_path, other, rank(1.0)))
    assert (tmp_path / "checkpoint-1").exists()
    assert done.exit_code in (3, 128 + signal.SIGTERM)
    assert done.failure["cause"].startswith("stopped by SIGTERM: worker rank 0 on algo-1")


def test_a_rank_that_does_not_end_in_time_is_the_failure(tmp_path: Path) -> None:
    done = stop(below_a_starter(tmp_path, rank(), rank(600), stop_grace=0.5))
    assert done.exit_code == 128 + signal.SIGKILL
    assert done.failure["rank"] == 1
    assert "still running 0.5 s later" in done.failure["cause"]


def test_stacks_of_ranks_below_a_starter_reach_the_failure(tmp_path: Path) -> None:
    waits = RANK.format(seconds=0, code=0, handler="").replace(
        "time.sleep(600)", "def waits_for_a_gradient(): time.sleep(600)\nwaits_for_a_gradient()"
    )
    done = below_a_starter(tmp_path, waits, waits, hang_timeout=1.0).finish()
    sections = done.failure["details"].split("--- ")[1:]
    assert [section.split(",")[0] for section in sections] == ["rank 0", "rank 1"]
    assert all("in waits_for_a_gradient" in section for section in sections)
