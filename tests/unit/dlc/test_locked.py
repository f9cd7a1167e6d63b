"""A lock counts only when it was made from what the buildspec asks for today."""

from __future__ import annotations

import pytest
from specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, specimen, unlocked

from dlc.buildspec.locked import (
    BYTES,
    FILES,
    HEADER,
    download_bytes,
    header,
    locked_versions,
    require_fresh,
    staleness,
    versions,
)
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import Tree
from dlc.core.errors import LockError
from dlc.plan.plan import make_plan

FOLDER = f"docker/pytorch/locks/{TORCH_ID}"


def stale(tree: Tree) -> str:
    with pytest.raises(LockError) as caught:
        require_fresh(tree, load_variants(tree))
    return str(caught.value)


def test_fresh_locks_pass() -> None:
    tree = specimen()
    require_fresh(tree, load_variants(tree))
    assert [staleness(tree, variant) for variant in load_variants(tree)] == ["", ""]


def test_missing_locks_are_named_together_with_the_command_that_writes_them() -> None:
    message = stale(unlocked())
    assert f"{FOLDER}: no lock" in message
    assert f"remedy: dlc lock {TORCH_ID} {TENSORFLOW_ID}" in message


def test_with_set_the_remedy_repeats_how_the_images_were_asked_for() -> None:
    with pytest.raises(LockError) as caught:
        make_plan(specimen(), ["pytorch-*"], ["python=3.13", "base.image="])
    assert caught.value.remedy == "dlc lock 'pytorch-*' --set python=3.13 --set base.image="


@pytest.mark.parametrize("name", FILES)
def test_each_lock_file_must_be_there(name: str) -> None:
    tree = {path: file for path, file in specimen().items() if path != f"{FOLDER}/{name}"}
    assert f"{FOLDER}/{name}: expected this file, found none" in stale(tree)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", ["", "torch==2.13.0\n", f"{HEADER}sha256:00\n", "\n\n"])
def test_a_lock_with_another_first_line_is_stale(name: str, text: str) -> None:
    message = stale(changed(specimen(), f"{FOLDER}/{name}", text))
    assert f"{FOLDER}/{name}:1: stale" in message
    assert f"dlc lock {TORCH_ID}" in message
    assert TENSORFLOW_ID not in message


@pytest.mark.parametrize("line", ["", "torch==2.13.0", f"{BYTES}many", f"{BYTES}-1"])
def test_a_lock_that_does_not_say_how_large_it_is_is_stale(line: str) -> None:
    tree = specimen()
    first = tree[f"{FOLDER}/framework.txt"].data.decode().partition("\n")[0]
    message = stale(changed(tree, f"{FOLDER}/framework.txt", f"{first}\n{line}\n"))
    assert f"{FOLDER}/framework.txt:2: stale: expected '{BYTES}NUMBER'" in message


def test_the_download_is_what_all_files_of_a_lock_say() -> None:
    tree = changed(specimen(), f"{FOLDER}/source.txt", header("sha256:00", 5_000_000_000))
    assert download_bytes(tree, FOLDER) == 5_000_003_000


def test_a_changed_requirement_makes_its_own_lock_stale_and_no_other() -> None:
    tree = changed(specimen(), PYTORCH_PATH, PYTORCH.replace("2.13.0+cpu", "2.13.1+cpu"))
    message = stale(tree)
    assert TORCH_ID in message
    assert TENSORFLOW_ID not in message


def test_versions_are_read_from_pins_and_from_nothing_else() -> None:
    text = (
        "# torch==1.0\ntorch==2.13.0+cpu \\\n    --hash=sha256:ab==cd\nRuamel.Yaml[x]==0.19 ; python_version>'3'\n"
        "    indented==1\n-r other.txt\n"
    )
    assert versions(text) == {"torch": "2.13.0+cpu", "ruamel-yaml": "0.19"}


def test_the_versions_of_an_image_are_those_of_all_its_files() -> None:
    tree = specimen()
    variant = load_variants(tree, ["pytorch-*"])[0]
    assert locked_versions(tree, variant) == {"torch": "2.13.0+cpu", "transformers": "5.23.0", "numpy": "2.4.6"}


def test_a_lock_that_lacks_the_framework_itself_is_an_error() -> None:
    tree = specimen()
    first = "\n".join(tree[f"{FOLDER}/framework.txt"].data.decode().splitlines()[:2])
    with pytest.raises(LockError, match=r"framework.txt: expected torch==2.13.0\+cpu, found no torch"):
        make_plan(changed(tree, f"{FOLDER}/framework.txt", f"{first}\nnumpy==2.4.6\n"))
