"""The program of tests/gpu/test_kept_outputs.py on a CPU: compiled steps too leave what a script keeps as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch_runs import Runner

PROGRAM = Path(__file__).parents[2] / "gpu/programs/kept_outputs.py"
GRAPHS = {"DLC_COMPILER_MODE": "cuda-graphs", "DLC_COMPILER_EAGER_STEPS": "2"}


def test_what_a_script_keeps_of_compiled_steps_is_what_eager_steps_give(runner: Runner) -> None:
    eager = printed(runner.run(str(PROGRAM), "cpu", compiler="off").log)
    run = runner.run(str(PROGRAM), "cpu", environ=GRAPHS)
    compiled = printed(run.log)
    assert run.report["compile_seconds"] > 0
    assert compiled["cases"].keys() == eager["cases"].keys()
    for case, numbers in eager["cases"].items():
        assert compiled["cases"][case] == pytest.approx(numbers, rel=1e-4, abs=1e-5), case


def printed(log: str) -> dict[str, Any]:
    line = next(line for line in log.splitlines() if line.startswith('{"compiler"'))
    return dict(json.loads(line))
