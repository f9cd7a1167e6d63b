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
    find = "import importlib.util, sys; print(*importlib.util.find_spec(sys.argv[1]).submodule_search_locations)"
    for name in {"torch", "torch_xla"}.intersection(python.has):  # the launcher looks for them there
        command = [torch_python.path, "-c", find, name]
        (packages / name).symlink_to(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    (packages / "zz_dlc_runtime.pth").rename(packages / "dlc_runtime.pth")
    torchrun = tmp_path / "venv/bin/torchrun"
    torchrun.write_text(f"#!{python.path}\nfrom torch.distributed.run import main\n\nmain()\n")
    torchrun.chmod(0o755)
    return tmp_path / "venv"


def launch(
    base: Path, venv: Path, cache: Path, script: Path = SCRIPTS / "plain.py", **parameters: Any
) -> subprocess.CompletedProcess[str]:
    values = {"sagemaker_program": script.name, **parameters}
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
    (base / "code").symlink_to(script.parent)
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
    assert "dlc compiler: Compiled Net: 1 graph in" in compiled.stderr
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "eager"), rel=1e-5)


def test_mp_fn_runs_once_per_xla_device_and_has_a_report(venv: Path, compile_cache: Path, tmp_path: Path) -> None:
    if not list(venv.glob("lib/python3*/site-packages/torch_xla")):
        pytest.skip("torch_xla is not installed")
    script = SOURCES.parent / "tests/integration/scripts/xla_mp_fn.py"
    devices = {"sagemaker_pytorch_xla_multi_worker_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 4}
    done = launch(tmp_path / "job", venv, compile_cache, script, **devices, sagemaker_training_compiler_enabled=True)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"job/output/data/metrics-rank{rank}.json").read_text()) for rank in range(4)]
    assert [(rank["rank"], rank["world_size"], rank["sum"]) for rank in ranks] == [(rank, 4, 6) for rank in range(4)]
    assert ranks[0]["weights"] == pytest.approx([3, -2], abs=0.01)
    assert [rank["weights"] for rank in ranks] == [ranks[0]["weights"]] * 4
    report = json.loads((tmp_path / "job/output/data/compiler/report.json").read_text())
    found = [(rank["backend"], rank["device"], rank["state"]) for rank in report["ranks"]]
    assert found == [("xla", "CPU, 4 devices", "ended")]
    assert report["steps"]["count"] == 100
    assert report["recompilations"] == report["eager"] == []
