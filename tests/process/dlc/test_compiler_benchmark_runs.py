"""How benchmarks/compiler.py runs its trainings, and how it ends where it cannot measure."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return


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


def test_a_training_that_fails_says_so_with_its_last_lines() -> None:
    runs = module("compiling.runs")
    with pytest.raises(runs.FailedTrainingError, match=r"^bert, cold: exit code 3\nthe reason$"):
        runs.run([sys.executable, "-c", "print('the reason'); exit(3)"], dict(os.environ), "bert, cold")


def benchmark(*arguments: str, packages: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(BENCHMARKS / "compiler.py"), *arguments]
    environ = {**os.environ, "PYTHONPATH": packages}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env=environ)


def test_a_python_without_the_framework_is_refused_before_anything_runs() -> None:
    done = benchmark("--torch-python", sys.executable)
    assert done.returncode == 1
    assert "lacks torch, transformers, which pytorch's trainings import" in done.stderr


def test_without_a_gpu_its_figures_are_refused_with_an_exit_code_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0+cpu'\nclass cuda: is_available = staticmethod(bool)\n")
    (tmp_path / "transformers.py").write_text("")
    done = benchmark("--gpu", packages=str(tmp_path))
    assert done.returncode == 3
    assert f"--gpu: torch 2.13.0+cpu of {sys.executable} finds no GPU. Run it on a host with" in done.stderr


def test_an_unknown_model_is_refused() -> None:
    done = benchmark("--models", "bert,lenet")
    assert done.returncode == 2
    assert "--models: lenet: expected some of bert, gpt, resnet, vit, llama" in done.stderr


def test_the_environments_differ_by_the_line_of_the_library_alone(tmp_path: Path) -> None:
    runs = module("compiling.runs")
    found = runs.pythons(sys.executable, tmp_path)
    ask = "import sys; print('dlc_runtime.compiler.arm' in sys.modules, any(p.endswith('/runtime') for p in sys.path))"
    environ = runs.clean({"DLC_COMPILER": "inductor"})
    assert runs.run([str(found.with_line), "-c", ask], environ, "with").strip() == "True True"
    assert runs.run([str(found.without), "-c", ask], environ, "without").strip() == "False False"
    assert runs.run([str(found.with_line), "-c", ask], runs.clean({}), "off").strip() == "False True"


STAND_IN = """
import json, os, sys
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if asked["--model"] == "vit":
    sys.exit("no such layer")
cache = os.environ.get("DLC_COMPILE_CACHE", "")
warm = os.path.isdir(cache)
seconds = [0.2] * 5 + [3.0] + [0.1 if cache else 0.2] * 6
out = {"seconds": seconds, "peak_bytes": 0, "batch": 2, "framework": "stand-in 1.0", "device": "CPU"}
open(asked["--out"], "w").write(json.dumps(out))
if cache:
    assert os.environ["DLC_COMPILER"] == "inductor"
    os.makedirs(cache, exist_ok=True)
    report = os.environ["DLC_COMPILER_REPORT"]
    os.makedirs(report)
    steps = {"first_compiled_step": 6, "warm_up": {"steps": 1}, "speed_up": 1.9}
    held = {"steps": steps, "compile_seconds": 2.0 if warm else 10.0, "eager": []}
    open(report + "/report.json", "w").write(json.dumps(held))
else:
    assert os.environ["DLC_COMPILER"] == "off"
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """The benchmark's command line, with trainings that compute nothing."""
    for name, text in (("torch.py", ""), ("transformers.py", ""), ("pytorch_training.py", STAND_IN)):
        (folder / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(module("compiling.runs"), "SCRIPTS", folder)
    monkeypatch.setattr(sys, "argv", ["compiler.py", "--torch-python", sys.executable, "--no-off", *arguments])


def test_without_time_each_model_is_trained_once_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, monkeypatch, "--models", "bert,gpt", "--minutes", "0", "--json", str(tmp_path / "out.json"))
    module("compiler").main()
    written = json.loads((tmp_path / "out.json").read_text())
    kinds = ["eager", "cold", "warm"]
    assert [(run["case"][-4:].strip(), run["kind"]) for run in written["trainings"]] == [
        *(("bert", kind) for kind in kinds), *(("gpt", kind) for kind in kinds)
    ]  # fmt: skip
    assert "| 0.200 | at most 0.30: met | 1 |" in capsys.readouterr().out


def test_a_run_compares_eager_cold_and_warm_and_tells_of_a_model_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--json", str(tmp_path / "out.json"), "--svg", str(tmp_path / "out.svg")]
    stand_in(tmp_path, monkeypatch, "--models", "bert,vit", "--runs", "2", *files)
    with pytest.raises(SystemExit) as end:
        module("compiler").main()
    assert end.value.code == 1  # one failed
    table = capsys.readouterr().out
    assert "| pytorch inductor bert | 200.0 | 100.0 | 2.00 (2.00 to 2.00) | 1.90 | 10.0 | 2.0 | 20 |" in table
    assert "| pytorch inductor vit | failed: pytorch inductor vit, eager: exit code 1 |" in table
    assert "| 0.200 | at most 0.30: met | 2 |" in table
    written = json.loads((tmp_path / "out.json").read_text())
    assert [run["kind"] for run in written["trainings"]] == ["eager", "eager", "cold", "warm", "warm"]
    assert written["software"] == "stand-in 1.0"
    assert "10.0 s, empty cache" in (tmp_path / "out.svg").read_text()
