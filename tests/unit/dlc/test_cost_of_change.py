"""What the architecture promises a change costs: a new framework version is one YAML and its lock, and no Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dlc.buildspec.locked import FILES, header
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import FOLDERS, find_root, read_tree
from dlc.core.errors import LockError
from dlc.plan.plan import make_plan

ROOT = find_root(Path(__file__).parent)
NEW_VERSION = """\
framework: pytorch
version: "2.14"
job: training
os_packages: [g++, python3-dev]
variants:
  - device: cu130
    python: "3.13"
    packages:
      framework: [torch==2.14.0]
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
    for name in FILES:
        pins = variant.framework_requirements if name == "framework.txt" else ()
        (folder / name).write_text(header(variant.lock_digest(), 0) + "\n".join([*pins, ""]))


def test_a_new_framework_version_is_one_yaml_and_its_lock(tmp_path: Path) -> None:
    root = copy_of_the_repository(tmp_path)
    (root / "buildspec/pytorch/2.14-training.yml").write_text(NEW_VERSION)
    with pytest.raises(LockError) as caught:
        make_plan(read_tree(root), ["pytorch-2.14-*"])
    assert "dlc lock pytorch-2.14-training-cu130-py313" in caught.value.remedy
    write_lock(root, "pytorch-2.14-*")
    plan = make_plan(read_tree(root), ["pytorch-2.14-*"])
    assert plan.targets[0].id == "rootfs-trixie"
    assert plan.targets[-1].id == "pytorch-2.14-training-cu130-py313"
    assert len(make_plan(read_tree(root)).selected) == len(make_plan(read_tree(ROOT)).selected) + 1


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
        "jax-0.8-training-cpu-py311/training"
    ]


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_frameworks_dockerfile_is_read_at_a_glance(framework: str) -> None:
    assert len((ROOT / "docker" / framework / "Dockerfile").read_text().splitlines()) <= 40
