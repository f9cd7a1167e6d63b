"""Whole jobs: the cache that a second job finds, debug mode, several workers, and a job that the launcher starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tensorflow_runs import SCRIPTS, Runner, at_once
from torch_runs import HANGS, SOURCES, Run, TorchPython, assert_same_model, make_python

LAUNCHER = SOURCES / "entrypoint/launcher.py"


@pytest.fixture(scope="module")
def kept(tensorflow_python: TorchPython, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two jobs with one cache; the first one in debug mode."""
    runner = Runner(tensorflow_python, tmp_path_factory.mktemp("kept"))
    cache = {"DLC_COMPILE_CACHE": str(tmp_path_factory.mktemp("cache"))}
    return (
        runner.run("fit.py", "tf.keras", environ={**cache, "DLC_COMPILER_DEBUG": "1"}),
        runner.run("fit.py", "tf.keras", environ=cache),
    )


def test_a_second_job_loads_what_the_first_one_compiled(kept: tuple[Run, Run]) -> None:
    cold, warm = (run.report for run in kept)
    assert (cold["cache_hits"], cold["cache_misses"] > 0) == (0, True)
    assert (warm["cache_hits"] > 0, warm["cache_misses"]) == (True, 0)
    assert kept[0].losses == pytest.approx(kept[1].losses, rel=1e-6)


def test_a_job_that_sets_weights_first_loads_what_a_job_without_that_compiled(
    kept: tuple[Run, Run], tensorflow_runner: Runner
) -> None:
    cache = kept[1].report["ranks"][0]["cache"]["asked"]
    run = tensorflow_runner.run("fit.py", "tf.keras", "resumed", environ={"DLC_COMPILE_CACHE": cache})
    assert (run.report["cache_hits"] > 0, run.report["cache_misses"]) == (True, 0)
    assert run.losses == pytest.approx(kept[0].losses, rel=1e-6)


@pytest.mark.parametrize("digests", [True, False], ids=["with digests", "of a job that was killed"])
def test_a_job_trains_to_its_end_with_a_damaged_cache(
    kept: tuple[Run, Run], tensorflow_runner: Runner, tmp_path: Path, digests: bool
) -> None:
    cache = Path(kept[1].report["ranks"][0]["cache"]["asked"])
    shutil.copytree(cache, tmp_path / "cache")
    programs = list((tmp_path / "cache").rglob("*.pb"))
    for program in programs:
        program.write_bytes(program.read_bytes()[:-100])
    if not digests:
        next((tmp_path / "cache").rglob("digests")).unlink()
    run = tensorflow_runner.run("fit.py", "tf.keras", environ={"DLC_COMPILE_CACHE": str(tmp_path / "cache")})
    assert run.losses == pytest.approx(kept[0].losses, rel=1e-6)
    found = "files that are not as a job left them" if digests else "damaged programs"
    assert f"held {len(programs)} {found}" in run.log
    assert run.report["cache_misses"] == len(programs) > 0


def test_what_tensorflow_prints_while_it_loads_is_explained(kept: tuple[Run, Run]) -> None:
    assert any("no harm" in note for note in kept[1].report["notes"])


def test_debug_mode_leaves_the_programs_of_each_rank_in_the_report(kept: tuple[Run, Run]) -> None:
    debug, plain = kept
    dumped = list((debug.folder / "report/xla").glob("*/*before_optimizations.txt"))
    assert any("run_step" in path.name or "one_step_on_data" in path.name for path in dumped)
    assert not (plain.folder / "report/xla").exists()


def workers(runner: Runner, how: str, compiler: str, cache: Path) -> list[Run]:
    """Two workers at once, with one cache."""
    environ = {"TF_USE_LEGACY_KERAS": "1", "DLC_COMPILE_CACHE": str(cache)}
    return at_once(runner, ["workers.py", how], compiler, environ)


@pytest.mark.parametrize("how", ["fit", "loop"])
def test_workers_of_several_hosts_train_the_same_model(tensorflow_runner: Runner, tmp_path: Path, how: str) -> None:
    if "tf_keras" not in tensorflow_runner.python.has:
        pytest.skip("tf_keras is not installed")
    plain = workers(tensorflow_runner, how, "", tmp_path / "cache")
    compiled = workers(tensorflow_runner, how, "xla", tmp_path / "cache")
    for rank in range(2):
        assert_same_model(plain[rank], compiled[rank], 1e-5)
        assert [entry["rank"] for entry in compiled[rank].report["ranks"]] == [rank]
        assert any(graph["id"].startswith("cluster_") for graph in compiled[rank].report["graphs"])
        assert compiled[rank].report["eager"] == []


def test_the_hyperparameter_compiles_an_unchanged_script(tensorflow_python: TorchPython, tmp_path: Path) -> None:
    python = make_python(tmp_path / "venv", "tensorflow")
    assert python is not None
    [packages] = (tmp_path / "venv").glob("lib/python3*/site-packages")
    find = "import importlib.util; print(importlib.util.find_spec('tensorflow').submodule_search_locations[0])"
    tensorflow = subprocess.run([tensorflow_python.path, "-c", find], capture_output=True, text=True, check=True)
    (packages / "tensorflow").symlink_to(tensorflow.stdout.strip())  # the launcher looks for it there
    (packages / "zz_dlc_runtime.pth").rename(packages / "dlc_runtime.pth")
    base = tmp_path / "job"
    (base / "input/config").mkdir(parents=True)
    (base / "results").mkdir()
    (base / "code").symlink_to(SCRIPTS)
    values = {"sagemaker_program": "loop.py", "sagemaker_training_compiler_enabled": True}
    config = {name: json.dumps(value) for name, value in values.items()}
    (base / "input/config/hyperparameters.json").write_text(json.dumps(config))
    variables = {
        "SAGEMAKER_BASE_DIR": str(base),
        "DLC_VENV": str(tmp_path / "venv"),
        "DLC_RUN_DIR": str(base / "run"),
        "DLC_NUM_GPUS": "0",
        "DLC_COMPILER_DEFAULT": "xla",
        "RESULTS": str(base / "results"),
        "PATH": os.environ["PATH"],
    }
    command = [sys.executable, "-I", "-S", str(LAUNCHER), "train"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads((base / "output/data/compiler/report.json").read_text())
    assert [entry["module"] for entry in report["modules"]] == ["step"]
    assert report["steps"]["eager"]["steps"] == 5
    assert [rank["state"] for rank in report["ranks"]] == ["ended"]
