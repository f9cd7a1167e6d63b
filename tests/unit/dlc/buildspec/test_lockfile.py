"""A lock counts only when it was made from what the buildspec asks for today."""

from __future__ import annotations

import pytest

from dlc.buildspec.lockfile import FILES, INPUT, explain_staleness, locked_versions, parse_versions, require_fresh
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import LockError
from dlc.plan.plan import make_plan
from harness.specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, pinned, specimen, unlocked

FOLDER = f"docker/pytorch/locks/{TORCH_ID}"


def stale(tree: Tree) -> str:
    with pytest.raises(LockError) as caught:
        require_fresh(tree, load_variants(tree))
    return str(caught.value)


def test_fresh_locks_pass() -> None:
    tree = specimen()
    require_fresh(tree, load_variants(tree))
    assert [explain_staleness(tree, variant) for variant in load_variants(tree)] == ["", ""]


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
@pytest.mark.parametrize("text", ["", "torch==2.13.0\n", f"{INPUT}sha256:00\n", "\n\n"])
def test_a_lock_with_another_first_line_is_stale(name: str, text: str) -> None:
    message = stale(changed(specimen(), f"{FOLDER}/{name}", text))
    assert f"{FOLDER}/{name}:1: stale" in message
    assert f"dlc lock {TORCH_ID}" in message
    assert TENSORFLOW_ID not in message


def test_a_lock_with_bytes_that_are_no_text_is_stale_so_that_it_can_be_made_anew() -> None:
    tree = {**specimen(), f"{FOLDER}/training.txt": SourceFile(b"\xff\x00")}
    assert f"{FOLDER}/training.txt:1: stale" in stale(tree)


def test_a_lock_for_another_platform_is_stale() -> None:
    path = f"{FOLDER}/framework.txt"
    text = specimen()[path].data.decode().replace("linux/amd64", "linux/arm64")
    assert f"{path}:2: stale: expected '# dlc-lock-platform: linux/amd64', found" in stale(
        changed(specimen(), path, text)
    )


def test_a_version_that_was_changed_by_hand_is_found() -> None:
    path = f"{FOLDER}/training.txt"
    text = specimen()[path].data.decode().replace("numpy==2.4.6", "numpy==2.4.7")
    message = stale(changed(specimen(), path, text))
    assert f"{FOLDER}: an entry was changed by hand: git diff {FOLDER} shows it" in message
    assert f"remedy: dlc lock {TORCH_ID}" in message


def test_files_of_two_runs_are_not_one_lock() -> None:
    first = specimen()
    second = pinned(first, FOLDER, "training.txt", "numpy==2.4.6\n")
    mixed = {**first, f"{FOLDER}/training.txt": second[f"{FOLDER}/training.txt"]}
    others = "cuda.txt, framework.txt, source.txt, compiled.txt"
    assert f"{FOLDER}: written by two runs of dlc lock: {others} but training.txt" in stale(mixed)
    require_fresh(second, load_variants(second))


def test_a_lock_that_is_written_anew_changes_the_key_of_its_image_and_of_no_other() -> None:
    before, after = (make_plan(tree) for tree in (specimen(), pinned(specimen(), FOLDER, "training.txt", "six==1\n")))
    changes = [old.id for old, new in zip(before.targets, after.targets, strict=True) if old.key != new.key]
    assert TORCH_ID in changes
    assert all(change.startswith(TORCH_ID) for change in changes)


def test_a_changed_requirement_makes_its_own_lock_stale_and_no_other() -> None:
    tree = changed(specimen(), PYTORCH_PATH, PYTORCH.replace("2.13.0+cpu", "2.13.1+cpu"))
    message = stale(tree)
    assert "stale: the buildspec asks for torch==2.13.1+cpu, found 2.13.0+cpu" in message
    assert TENSORFLOW_ID not in message


def test_a_stale_lock_names_what_it_lacks_and_says_why_it_is_stale_where_it_lacks_nothing() -> None:
    more = "  - packages: {framework: [torch==2.13.0+cpu], training: [six==1.17.0, numpy==2.0.0, transformers]}\n"
    old = "  - packages: {framework: [torch==2.13.0+cpu]}\n"
    message = stale(changed(specimen(), PYTORCH_PATH, PYTORCH.replace(old, more)))
    assert "stale: the buildspec asks for six==1.17.0, found none; numpy==2.0.0, found 2.4.6\n" in message
    fewer = old.replace("]}", "], training: [numpy]}")
    message = stale(changed(specimen(), PYTORCH_PATH, PYTORCH.replace(old, fewer)))
    assert "stale: made when the buildspec asked for more packages, or for another Python, suite or index" in message


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " and 1 more"), (7, " and 2 more")])
def test_a_stale_lock_names_five_packages_and_counts_the_others(count: int, more: str) -> None:
    words = [f"p{number}==1" for number in range(count)]
    old = "{framework: [torch==2.13.0+cpu]}"
    asked = old.replace("]}", f"], training: [{', '.join(words)}]}}")
    message = stale(changed(specimen(), PYTORCH_PATH, PYTORCH.replace(old, asked)))
    named = "; ".join(f"{word}, found none" for word in words[:5])
    assert f"stale: the buildspec asks for {named}{more}\n" in message


def test_versions_are_read_from_pins_and_from_nothing_else() -> None:
    text = (
        "# torch==1.0\ntorch==2.13.0+cpu \\\n    --hash=sha256:ab==cd\nRuamel.Yaml[x]==0.19 ; python_version>'3'\n"
        "    indented==1\n-r other.txt\n"
    )
    assert parse_versions(text) == {"torch": "2.13.0+cpu", "ruamel-yaml": "0.19"}


def test_the_versions_of_an_image_are_those_of_all_its_files() -> None:
    tree = specimen()
    variant = load_variants(tree, ["pytorch-*"])[0]
    assert locked_versions(tree, variant) == {"torch": "2.13.0+cpu", "transformers": "5.23.0", "numpy": "2.4.6"}


def test_a_lock_that_lacks_the_framework_itself_is_an_error() -> None:
    tree = specimen()
    with pytest.raises(LockError, match=r"framework.txt: expected torch==2.13.0\+cpu, found no torch"):
        make_plan(pinned(tree, FOLDER, "framework.txt", "numpy==2.4.6\n"))


def test_a_lock_with_the_line_ends_of_windows_is_told_by_that_and_not_as_stale() -> None:
    text = specimen()[f"{FOLDER}/training.txt"].data.decode().replace("\n", "\r\n")
    message = stale(changed(specimen(), f"{FOLDER}/training.txt", text))
    assert (
        f"{FOLDER}/training.txt: expected lines that end with LF, found CRLF: git config core.autocrlf input" in message
    )
    assert "stale" not in message
