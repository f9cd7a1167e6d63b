"""Debug mode: the compilers' own dumps lie beside the report, say what they are, and stay bounded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from torch_runs import Runner

DEBUG = {"DLC_COMPILER_DEBUG": "1"}


def test_each_graph_and_the_trace_are_dumped_with_a_table_of_what_they_are(runner: Runner) -> None:
    run = runner.both("plain.py", environ=DEBUG)
    debug = run.folder / "report/debug"
    table = (debug / "README.txt").read_text()
    graphs = sorted(debug.glob("torch_compile_debug/run_*/torchinductor/model__*"))
    assert len(graphs) == 2  # forward and backward
    for graph in graphs:
        assert [path.name for path in graph.iterdir() if path.suffix != ".json" and path.name not in table] == []
        assert "class" in (graph / "fx_graph_readable.py").read_text()
    [trace] = (debug / "trace").iterdir()
    assert trace.stat().st_mode & 0o044 == 0o044
    assert "Net" in trace.read_text()
    [counters] = debug.glob("counters-rank-0-*.json")
    assert json.loads(counters.read_text())["stats"]["unique_graphs"] == 1


def test_the_trace_becomes_pages(runner: Runner) -> None:
    if not runner.python.tlparse:
        pytest.skip("tlparse is not installed")
    beside = f"{Path(runner.python.tlparse).parent}:{os.environ['PATH']}"
    run = runner.run("plain.py", environ={**DEBUG, "PATH": beside})
    [index] = run.folder.glob("report/debug/pages/rank-0-*/index.html")
    assert "plain.py" in index.read_text() or "small_training.py" in index.read_text()


def test_dumps_end_where_the_folder_is_full_and_the_training_goes_on(runner: Runner) -> None:
    bounded = {**DEBUG, "DLC_COMPILER_DEBUG_MB": "1", "DLC_COMPILER_DYNAMIC": "0"}
    run = runner.both("again.py", "shape", environ=bounded, weights=1e-5)
    assert "holds more than 1 MiB: no more is dumped (DLC_COMPILER_DEBUG_MB)" in run.log
    dumped = list(run.folder.glob("report/debug/torch_compile_debug/run_*/torchinductor/model__*"))
    assert 0 < len(dumped) < 2 * len(run.report["graphs"])


def test_without_debug_mode_nothing_is_dumped(runner: Runner) -> None:
    run = runner.run("plain.py", environ={"DLC_COMPILER_DEBUG": "0"})
    assert not (run.folder / "report/debug").exists()


def test_a_folder_that_cannot_be_made_costs_the_dumps_and_not_the_training(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = runner.run("plain.py", environ={**DEBUG, "DLC_COMPILER_REPORT": str(tmp_path / "file/report")})
    assert "no debug dumps: " in run.log
    assert len(run.losses) == 12
