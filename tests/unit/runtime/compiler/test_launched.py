"""A job that the launcher starts: its hyperparameters switch the compiler on, and the report lies in its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch_runs import HANGS, SCRIPTS, SOURCES, TorchPython, make_python

LAUNCHER = SOURCES / "entrypoint/launcher.py"


@pytest.fixture
def venv(torch_python: TorchPython, tmp_path: Path) -> Path:
    """An environment as the image's is, with the torch of the tests."""
    python = make_python(tmp_path / "venv")
    assert python is not None, torch_python
    [packages] = (tmp_path / "venv").glob("lib/python3*/site-packages")
    find = "import torch, pathlib; print(pathlib.Path(torch.__file__).parent)"
    torch = subprocess.run([torch_python.path, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    (packages / "torch").symlink_to(torch)  # the launcher looks for it there
    (packages / "zz_dlc_runtime.pth").rename(packages / "dlc_runtime.pth")
    return tmp_path / "venv"


def launch(base: Path, venv: Path, cache: Path, **parameters: Any) -> subprocess.CompletedProcess[str]:
    values = {"sagemaker_program": "plain.py", **parameters}
    (base / "input/config").mkdir(parents=True)
    config = {name: json.dumps(value) for name, value in values.items()}
    (base / "input/config/hyperparameters.json").write_text(json.dumps(config))
    (base / "results").mkdir()
    variables = {
        "SAGEMAKER_BASE_DIR": str(base),
        "DLC_VENV": str(venv),
        "DLC_RUN_DIR": str(base / "run"),
        "DLC_NUM_GPUS": "0",
        "DLC_COMPILER_DEFAULT": "inductor",
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "RESULTS": str(base / "results"),
        "OMP_NUM_THREADS": "1",
        "PATH": os.environ["PATH"],
    }
    (base / "code").symlink_to(SCRIPTS)
    command = [sys.executable, "-I", "-S", str(LAUNCHER), "train"]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=HANGS, check=False)


def losses(base: Path) -> list[float]:
    return [float(loss) for loss in json.loads((base / "results/0.json").read_text())["losses"]]


def test_the_hyperparameter_compiles_an_unchanged_script(venv: Path, compile_cache: Path, tmp_path: Path) -> None:
    eager = launch(tmp_path / "eager", venv, compile_cache)
    assert eager.returncode == 0, eager.stderr
    assert not (tmp_path / "eager/output/data/compiler").exists()
    compiled = launch(tmp_path / "compiled", venv, compile_cache, sagemaker_training_compiler_enabled=True)
    assert compiled.returncode == 0, compiled.stderr
    report = json.loads((tmp_path / "compiled/output/data/compiler/report.json").read_text())
    assert [graph["function"] for graph in report["graphs"]] == ["Net"]
    assert [rank["state"] for rank in report["ranks"]] == ["ended"]
    assert "dlc compiler: compiled Net: 1 graph in" in compiled.stderr
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "eager"), rel=1e-5)
