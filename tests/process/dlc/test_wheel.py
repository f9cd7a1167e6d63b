"""The wheel alone is enough: in a new environment, in a folder outside every checkout."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

import dlc
from dlc.core.checkout import find_root, read_other_recipes, read_tree
from harness.installed import BUILT, build_package, run_installed, take_environment

ROOT = find_root(Path(__file__))
IMAGE = "pytorch-2.13-training-cpu-py311-demo"


@pytest.fixture(scope="module")
def wheel() -> Path:
    [found] = (take_environment() / BUILT).glob("*.whl")
    return found


@pytest.fixture(scope="module")
def command() -> Path:
    return take_environment() / "bin/dlc"


def run(command: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    nowhere = {"DLC_ENGINE": "off", "DOCKER_HOST": f"unix://{folder}/none.sock", "DLC_CACHE_DIR": f"{folder}/cache"}
    return run_installed(command, folder, *words, **nowhere)


def said(command: Path, folder: Path, *words: str) -> str:
    done = run(command, folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in build_package(tmp_path / name, mask)}
        for name, mask in (("first", 0o022), ("second", 0o077))
    )
    assert first == second
    assert sorted(first) == [f"dlc-{dlc.__version__}-py3-none-any.whl", f"dlc-{dlc.__version__}.tar.gz"]


def test_the_wheel_has_the_recipes_of_the_checkout(wheel: Path) -> None:
    ours = {path: file for path, file in read_tree(ROOT).items() if "-set-" not in path}
    assert read_other_recipes(wheel) == ours


def test_a_project_is_made_listed_and_planned(command: Path, wheel: Path, tmp_path: Path) -> None:
    said(command, tmp_path, "init", "demo")
    demo = tmp_path / "demo"
    assert said(command, demo, "list", "--ids") == f"{IMAGE}\n"
    assert IMAGE in said(command, demo, "plan")
    assert "dlc.yml:" in said(command, demo, "show")
    assert "0 of 1 images change" in said(command, demo, "plan", "--against", str(wheel))
    explained = said(command, demo, "run", "--explain")
    assert "demo/pytorch:2.13-training-cpu-py311-demo" in explained
    assert "train.py" in explained
    said(command, demo, "run", "--save", "job.yml")
    assert "demo/pytorch:2.13-training-cpu-py311-demo" in said(
        command, demo, "submit", "job.yml", "--to", "slurm", "--dry-run",
        "--image", "registry.example/demo/pytorch:2.13-training-cpu-py311-demo",
    )  # fmt: skip


def test_the_lock_of_a_release_is_not_written(command: Path, tmp_path: Path) -> None:
    done = run(command, tmp_path, "lock", "pytorch-2.13-*-cpu-*", "--set", "packages.training=[einops==0.8.1]")
    assert done.returncode == 2
    assert f"belongs to dlc {dlc.__version__}" in done.stderr
    assert "dlc init" in done.stderr


@pytest.mark.parametrize("words", [("update", "packages"), ("docs", "--check"), ("schema", "--check")])
def test_what_changes_recipes_needs_a_checkout(command: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(command, tmp_path, *words)
    assert done.returncode == 2
    assert "run dlc inside a checkout" in done.stderr
