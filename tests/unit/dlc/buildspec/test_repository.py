"""This repository's own buildspec, Dockerfiles and pins fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlc.buildspec.files import read_buildspec
from dlc.buildspec.lockfile import explain_staleness, without_headers
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import normal_name
from dlc.core.checkout import files_below, find_root, read_tree
from dlc.core.platforms import ANY_PLATFORM
from dlc.plan.plan import make_plan

ROOT = find_root(Path(__file__).parent)
TREE = read_tree(ROOT)


def test_the_default_images_are_planned() -> None:
    ids = [variant.id for variant in load_variants(TREE)]
    assert "pytorch-2.13-training-cpu-py311" in ids
    assert "tensorflow-2.21-training-cpu-py311" in ids
    assert make_plan(TREE).selected == tuple(ids)


def test_every_lock_is_fresh() -> None:
    reasons = [explain_staleness(TREE, variant) for variant in load_variants(TREE)]
    assert [reason for reason in reasons if reason] == []


def test_pytorch_and_tensorflow_for_one_cuda_install_one_list_of_its_libraries() -> None:
    folders = (
        "docker/pytorch/locks/pytorch-2.9-training-cu128-py311",
        "docker/pytorch/locks/pytorch-2.9-training-cu128-py311-xla",
        "docker/tensorflow/locks/tensorflow-2.21-training-cu128-py311",
    )
    [lines] = {without_headers(files_below(TREE, folder))["cuda.txt"].data for folder in folders}
    assert b"nvidia-cublas-cu12==" in lines


def test_every_lock_folder_belongs_to_an_image() -> None:
    folders = {path.rpartition("/")[0] for path in TREE if "/locks/" in path}
    assert folders == {variant.lock_folder for variant in load_variants(TREE, platform=ANY_PLATFORM)}


def test_every_pin_is_used_by_an_image() -> None:
    pins = read_buildspec(TREE).pins
    assert pins is not None
    asked = [name for v in load_variants(TREE) for name in (*v.framework_requirements, *v.training_requirements)]
    assert {normal_name(name) for name in pins.packages} <= {normal_name(name) for name in asked}


@pytest.mark.parametrize("base", ["debian:12", "ubuntu:24.04"])
def test_every_image_can_be_planned_on_a_base_that_the_user_names(base: str) -> None:
    plan = make_plan(TREE, (), [f"base.image={base}"])
    assert not any(target.id.startswith("rootfs-") for target in plan.targets)


def test_no_compiled_python_is_part_of_a_content_key() -> None:
    assert [path for path in TREE if "__pycache__" in path] == []


def test_the_plan_says_nothing_of_the_machine_it_is_made_on() -> None:
    assert str(ROOT) not in json.dumps(make_plan(TREE).as_dict())


def test_every_module_that_pytest_imports_by_its_bare_name_has_a_name_of_its_own() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    names = [path.name for folder in folders for path in folder.glob("*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


def test_the_licence_in_the_image_is_the_repositorys() -> None:
    assert (ROOT / "src/entrypoint/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_compiler_that_an_image_names_is_one_that_it_has() -> None:
    defaults = {variant.id: variant.settings.env.get("DLC_COMPILER_DEFAULT", "") for variant in load_variants(TREE)}
    packages = {variant.id: " ".join(variant.framework_requirements) for variant in load_variants(TREE)}
    for name, default in defaults.items():
        if default == "inductor":
            assert re.search(r"\btorch==[2-9]", packages[name]), name
        if default == "xla":
            assert "torch_xla==" in packages[name] or name.startswith("tensorflow-"), name
    assert defaults["pytorch-2.13-training-cpu-py311"] == "inductor"
    assert defaults["tensorflow-2.21-training-cpu-py311"] == "xla"
    assert defaults["pytorch-1.13-training-cu117-py311"] == ""
