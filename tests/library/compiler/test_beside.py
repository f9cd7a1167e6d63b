"""A way is compiled beside the training, and the training then loads it: it never waits for more than its budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_runs import Run, Runner

SCRIPT = "beside.py"
# Too small to compile in the training's own time, which takes about 20 s; large enough to load what was compiled.
LOADS = {"DLC_COMPILER_MODE": "auto", "DLC_COMPILER_BUDGET": "15"}


def outcome(run: Run) -> str:
    return next(str(entry["outcome"]) for entry in run.report["ways"] if entry["way"] == "inductor")


@pytest.mark.parametrize("threads", ["one", "threads"])
def test_the_training_loads_what_was_compiled_beside_it(runner: Runner, tmp_path: Path, threads: str) -> None:
    """With OpenMP's threads, which a forked child does not have, too."""
    run = runner.run(SCRIPT, threads, environ={**LOADS, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")})
    assert "inductor is compiled beside the training, from step 6 on" in run.log
    assert any(note.startswith("inductor was compiled beside the training up to step") for note in run.report["notes"])
    assert (run.report["cache_misses"], run.report["cache_hits"] > 0) == (0, True)
    assert "not begun" not in outcome(run)


def test_a_compiler_that_ends_beside_the_training_leaves_the_training_eager(runner: Runner) -> None:
    eager = runner.run(SCRIPT, "ends", compiler="")
    run = runner.run(SCRIPT, "ends", environ=LOADS)
    assert run.results == eager.results
    assert "inductor could not be compiled beside the training: RuntimeError: the compiler's process ended" in run.log
    assert outcome(run).startswith("not begun: it would take about 21 s, this job has run ")
    assert run.report["graphs"] == []


def test_by_default_a_short_job_begins_nothing(runner: Runner) -> None:
    run = runner.run(SCRIPT, "ends", environ={**LOADS, "DLC_COMPILER_BUDGET": ""})
    assert "beside the training" not in run.log
    assert run.report["choosing"]["words"].startswith("eager from step 6 on: no other way was begun")
    assert outcome(run).startswith("not begun: it would take about 21 s, this job has run ")
