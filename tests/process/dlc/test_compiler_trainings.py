"""How benchmarks/compiler.py runs its trainings: in turns, with an end, with the compiler's line and without it."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def module(name: str) -> Any:
    return importlib.import_module(name)


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_training_that_hangs_ends_with_its_children() -> None:
    runs = module("compiling.runs")
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    with pytest.raises(runs.FailedTrainingError, match=r"bert: not done after 3 s\n\d+") as caught:
        runs.run([sys.executable, "-c", code], dict(os.environ), "bert", hangs=3)
    child = int(str(caught.value).splitlines()[1])
    while is_running(child):  # it is killed, and goes when the kernel comes to it
        time.sleep(0.01)


TICKS = """
import os, signal, sys, time
os.kill(os.getpid(), signal.SIGSTOP)
for _ in range(60):
    print(time.monotonic(), flush=True)
    time.sleep(0.01)
"""


def test_trainings_that_are_warm_run_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = module("compiling.runs")
    monkeypatch.setattr(runs, "TURN", 0.1)
    command = runs.Command([sys.executable, "-c", TICKS], dict(os.environ), "bert")
    outputs = runs.run_in_turns([command, command], hangs=60)
    owners = [owner for _, owner in sorted((float(line), owner) for owner in (0, 1) for line in outputs[owner].split())]
    assert owners.count(0) == owners.count(1) == 60
    turns = 1 + sum(before != after for before, after in itertools.pairwise(owners))
    assert 4 <= turns <= 40  # two that run at once change at nearly each of the 120 ticks


def test_a_training_that_fails_says_so_with_its_last_lines() -> None:
    runs = module("compiling.runs")
    with pytest.raises(runs.FailedTrainingError, match=r"^bert, cold: exit code 3\nthe reason$"):
        runs.run([sys.executable, "-c", "print('the reason'); exit(3)"], dict(os.environ), "bert, cold")


def test_the_environments_differ_by_the_line_of_the_library_alone(tmp_path: Path) -> None:
    runs = module("compiling.runs")
    found = runs.pythons(sys.executable, tmp_path)
    armed = "'dlc_runtime.compiler.import_hook' in sys.modules"
    ask = f"import sys; print({armed}, any(p.endswith('/runtime') for p in sys.path))"
    environ = runs.clean({"DLC_COMPILER": "inductor"})
    assert runs.run([str(found.with_line), "-c", ask], environ, "with").strip() == "True True"
    assert runs.run([str(found.without), "-c", ask], environ, "without").strip() == "False False"
    assert runs.run([str(found.with_line), "-c", ask], runs.clean({}), "off").strip() == "False True"
