"""What the architecture promises a change costs: a new framework version is one YAML and its lock, and no Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dlc.buildspec.lockfile import FILES, with_headers
from dlc.buildspec.matrix import load_variants
from dlc.core import process
from dlc.core.checkout import FOLDERS, find_root, read_tree
from dlc.core.errors import LockError
from dlc.plan.plan import make_plan
from harness.installed import TOOLS

ROOT = find_root(Path(__file__).parent)
# Tests that read this repository's own images.
ABOUT_IMAGES = (
    *(f"tests/unit/dlc/{name}.py" for name in ("image_build/test_bake_file", "plan/test_plan", "inspection/test_docs")),
    *(f"tests/unit/dlc/buildspec/test_{name}.py" for name in ("repository", "schema")),
    *("tests/unit/dlc/cli/test_cli.py", "tests/unit/house/test_readme.py"),
    "tests/process/dlc/test_command_line.py::test_list_prints_a_line_or_an_object_per_image",
)
NEW_VERSION = """\
# yaml-language-server: $schema=../buildspec.schema.json
framework: pytorch
version: "99.1"
job: training
os_packages: [g++, python3-dev]
variants:
  - device: cu130
    python: "3.13"
    packages:
      framework: [torch==99.1.0]
"""
NEW_FRAMEWORK = """\
framework: jax
version: "0.8"
job: training
variants:
  - packages:
      framework: [jax==0.8.0]
"""


def copy_of_the_repository(folder: Path) -> Path:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    return folder


def write_lock(root: Path, identifier: str) -> None:
    """What `dlc lock` would write, as far as a plan reads it."""
    (variant,) = load_variants(read_tree(root), [identifier])
    folder = root / variant.lock_folder
    folder.mkdir(parents=True)
    texts = {**dict.fromkeys(FILES, ""), "framework.txt": "\n".join([*variant.framework_requirements, ""])}
    for name, text in with_headers(variant.lock_digest(), texts).items():
        (folder / name).write_text(text)


def test_a_new_framework_version_is_one_yaml_and_its_lock(tmp_path: Path) -> None:
    root = copy_of_the_repository(tmp_path)
    (root / "buildspec/pytorch/99.1-training.yml").write_text(NEW_VERSION)
    with pytest.raises(LockError) as caught:
        make_plan(read_tree(root), ["pytorch-99.1-*"])
    assert "dlc lock pytorch-99.1-training-cu130-py313" in caught.value.remedy
    write_lock(root, "pytorch-99.1-*")
    plan = make_plan(read_tree(root), ["pytorch-99.1-*"])
    assert plan.targets[0].id == "rootfs-trixie"
    assert plan.targets[-1].id == "pytorch-99.1-training-cu130-py313"
    assert len(make_plan(read_tree(root)).selected) == len(make_plan(read_tree(ROOT)).selected) + 1


@pytest.mark.long
def test_a_new_framework_version_changes_no_test(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    every = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]  # as it will be committed
    for path in process.run_program(every, cwd=ROOT).stdout.split("\0"):
        if (ROOT / path).is_file():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, root / path)
    (root / "buildspec/pytorch/99.1-training.yml").write_text(NEW_VERSION)
    write_lock(root, "pytorch-99.1-*")
    command = [TOOLS / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *ABOUT_IMAGES]
    done = process.run_program(command, cwd=root, env={"PYTHONPATH": f"{root}/src:{root}/tests"}, check=False)
    assert done.returncode == 0, done.stdout


def test_a_new_framework_is_a_recipe_one_yaml_and_its_lock(tmp_path: Path) -> None:
    root = copy_of_the_repository(tmp_path)
    (root / "buildspec/jax").mkdir()
    (root / "buildspec/jax/0.8-training.yml").write_text(NEW_FRAMEWORK)
    (root / "docker/jax").mkdir()
    shutil.copy(root / "docker/pytorch/Dockerfile", root / "docker/jax/Dockerfile")
    write_lock(root, "jax-*")
    plan = make_plan(read_tree(root), ["jax-*"])
    assert plan.target("jax-0.8-training-cpu-py311").labels["org.dlc.framework.version"] == "0.8.0"
    assert [target.id for target in plan.targets if target.dockerfile == "docker/jax/Dockerfile"] == [
        "jax-0.8-training-cpu-py311/framework",
        "jax-0.8-training-cpu-py311/training",
    ]


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_frameworks_dockerfile_is_read_at_a_glance(framework: str) -> None:
    assert len((ROOT / "docker" / framework / "Dockerfile").read_text().splitlines()) <= 40
