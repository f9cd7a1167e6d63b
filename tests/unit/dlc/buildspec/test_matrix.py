"""Files expand to variants whose names, requirements and lock inputs follow from their settings alone."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant, normal_name
from dlc.core.errors import SelectorError, SpecError, UsageError
from harness.specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, unlocked

DEVICES = ("cpu", "cu118", "cu126", "cu128", "cu130")
PYTHONS = ("3.11", "3.13")


def torch(*sets: str) -> Variant:
    (variant,) = load_variants(unlocked(), ["pytorch-*"], sets)
    return variant


def test_identifiers_and_references_are_derived_from_the_settings() -> None:
    assert [v.id for v in load_variants(unlocked())] == [TORCH_ID, TENSORFLOW_ID]
    assert torch().ref == "dlc/pytorch:2.13-training-cpu-py311"
    assert torch().lock_folder == f"docker/pytorch/locks/{TORCH_ID}"
    assert torch().suite == "bookworm"


def test_bare_requirements_get_their_pins_and_others_keep_their_version() -> None:
    assert torch().framework_requirements == ("torch==2.13.0+cpu",)
    assert torch().training_requirements == ("transformers==5.23.0", "numpy==2.4.6")
    changed_numpy = torch("packages.training=[numpy==2.0.0, transformers]")
    assert changed_numpy.training_requirements == ("numpy==2.0.0", "transformers==5.23.0")


@given(st.lists(st.tuples(st.sampled_from(DEVICES), st.sampled_from(PYTHONS)), min_size=1, unique=True))
def test_a_file_yields_each_variant_it_lists_once_and_in_order(shapes: list[tuple[str, str]]) -> None:
    entries = [
        f'  - {{device: {device}, python: "{python}", packages: {{framework: [torch==2.13.0]}}}}\n'
        for device, python in shapes
    ]
    text = PYTORCH.partition("variants:")[0] + "variants:\n" + "".join(entries)
    found = load_variants(changed(unlocked(), PYTORCH_PATH, text), ["pytorch-*"])
    assert [(v.settings.device, v.settings.python) for v in found] == shapes
    assert len({v.id for v in found}) == len({v.ref for v in found}) == len(shapes)


@given(st.sampled_from(["device=cu128", "repository=ghcr.io/me", "base.image=debian:12", "os_packages=[make]"]))
def test_a_set_changes_its_own_setting_and_no_other(text: str) -> None:
    before, after = torch().settings.model_dump(), torch(text).settings.model_dump()
    assert [key for key in before if before[key] != after[key]] == [text.partition("=")[0].partition(".")[0]]


def test_globs_select_among_the_images_of_the_files_and_set_changes_those_only() -> None:
    (variant,) = load_variants(unlocked(), ["pytorch-*-cpu-*"], ["device=cu128"])
    assert variant.id == "pytorch-2.13-training-cu128-py311"
    with pytest.raises(SelectorError):
        load_variants(unlocked(), ["pytorch-*-cu128-*"], ["device=cu128"])


def test_a_later_set_wins() -> None:
    assert torch("device=cu118", "device=cu128").settings.device == "cu128"


def test_a_broken_rule_is_reported_where_the_offending_value_was_set() -> None:
    with pytest.raises(UsageError) as caught:
        torch("python=3.9")
    assert caught.value.message == (
        "--set python=3.9: python: expected >=3.10 because its wheels start there (buildspec/compat.yml:5:5), "
        f"found '3.9'; in {TORCH_ID.replace('311', '39')}"
    )


def test_a_rule_on_package_versions_is_reported_at_the_requirement() -> None:
    text = PYTORCH.replace("torch==2.13.0+cpu", "torch==2.1.0").replace('"2.13"', '"2.1"')
    tree = {k: v for k, v in unlocked().items() if k != PYTORCH_PATH}
    with pytest.raises(SpecError) as caught:
        load_variants(changed(tree, "buildspec/pytorch/2.1-training.yml", text))
    assert caught.value.message.startswith("buildspec/defaults.yml:12:28: packages.numpy: expected <2 because")


def test_a_rule_on_the_suite_is_reported_at_the_suite() -> None:
    with pytest.raises(UsageError, match=r"^--set suites.3.9=bookworm: suite: expected bullseye because"):
        load_variants(unlocked(), ["tensorflow-*"], ["python=3.9", "suites.3.9=bookworm"])


def test_the_lock_input_is_canonical_and_holds_what_a_resolution_depends_on() -> None:
    assert json.loads(torch().lock_input()) == {
        "framework": ["torch==2.13.0+cpu"],
        "training": ["transformers==5.23.0", "numpy==2.4.6"],
        "source": [],
        "compiled": [],
        "python": "3.11",
        "suite": "bookworm",
        "platform": "linux/amd64",
    }
    same = ("os_packages=[make]", "repository=other", "base.image=debian:12", "labels.a=b")
    assert {torch(text).lock_digest() for text in same} == {torch().lock_digest()}
    other = ("python=3.13", "packages.source=[transformers]", "packages.training=[numpy]")
    assert len({torch(text).lock_digest() for text in other} | {torch().lock_digest()}) == 4


@pytest.mark.parametrize("written", ["Sage_Maker.Training", "sage-maker-training[extra]==5.1", "SAGE.MAKER.TRAINING"])
def test_package_names_are_compared_as_indexes_compare_them(written: str) -> None:
    assert normal_name(written) == "sage-maker-training"


def test_versions_are_listed_in_their_own_order_and_not_in_the_alphabet() -> None:
    text = PYTORCH.replace('"2.13"', '"2.9"').replace("torch==2.13.0+cpu", "torch==2.9.1")
    tree = changed(unlocked(), "buildspec/pytorch/2.9-training.yml", text)
    assert [v.header.version for v in load_variants(tree, ["pytorch-*"])] == ["2.9", "2.13"]


def test_another_image_by_set_has_a_reference_of_its_own_and_the_same_one_each_time() -> None:
    changed_base = torch("base.image=debian:12")
    assert re.fullmatch(r"dlc/pytorch:2\.13-training-cpu-py311-set-[0-9a-f]{8}", changed_base.ref)
    assert changed_base.id == TORCH_ID
    assert torch("base.image=debian:12").ref == changed_base.ref
    assert torch("base.image=debian:11").ref != changed_base.ref
    assert (
        torch("os_packages=[make]", "base.image=debian:12").ref
        == torch("base.image=debian:12", "os_packages=[make]").ref
    )


@pytest.mark.parametrize("text", ["device=cpu", "os_packages=[g++]", "base.image="])
def test_a_set_that_changes_nothing_is_the_image_itself(text: str) -> None:
    assert (torch(text).ref, torch(text).lock_folder) == (torch().ref, torch().lock_folder)


def test_another_repository_or_budget_or_place_of_an_index_makes_no_other_image() -> None:
    assert torch("budget.gigabytes=99").ref == torch().ref
    assert torch("repository=ghcr.io/me").ref == "ghcr.io/me/pytorch:2.13-training-cpu-py311"
    index = "indexes: {special: {address: 'https://a.example', packages: [torch]}}\n"
    tree = changed(unlocked(), PYTORCH_PATH, PYTORCH + index)
    (moved,) = load_variants(tree, ["pytorch-*"], ["indexes.special.address=https://b.example"])
    assert moved.indexed[0].address == "https://b.example"
    assert moved.ref == torch().ref


def test_a_set_that_asks_for_the_same_packages_uses_the_committed_lock_and_another_never_does() -> None:
    assert torch("base.image=debian:12", "os_packages=[make]").lock_folder == torch().lock_folder
    other = torch("packages.training=[numpy]").lock_folder
    assert re.fullmatch(rf"docker/pytorch/locks/{TORCH_ID}-set-[0-9a-f]{{8}}", other)
    assert torch("python=3.13").lock_folder.startswith(f"docker/pytorch/locks/{TORCH_ID.replace('311', '313')}-set-")


@pytest.mark.parametrize("text", ["flavor=xla", "device=cu128"])
def test_a_set_that_makes_an_image_of_another_name_never_uses_the_committed_lock_of_that_name(text: str) -> None:
    """Its packages are the plain image's: the lock of the image that has this name would be written over."""
    found = torch(text)
    assert found.lock_folder.startswith(f"docker/pytorch/locks/{found.id}-set-")
    assert found.id != TORCH_ID


def test_a_path_below_an_image_s_own_mapping_is_split_there() -> None:
    index = "indexes: {special: {address: 'https://a.example', packages: [torch]}}\n"
    tree = changed(unlocked(), PYTORCH_PATH, PYTORCH + index)
    (variant,) = load_variants(tree, ["pytorch-*"], ["indexes.special.packages=[torch, numpy]"])
    assert variant.indexed[0].packages == ("torch", "numpy")


def test_a_flavor_is_another_image_that_is_asked_for_by_its_name() -> None:
    text = PYTORCH + "  - flavor: xla\n    packages: {framework: [torch==2.13.0+cpu, torch_xla==2.9.0]}\n"
    tree = changed(unlocked(), PYTORCH_PATH, text)
    assert [v.id for v in load_variants(tree, ["pytorch-*"])] == [TORCH_ID, f"{TORCH_ID}-xla"]
    assert [v.id for v in load_variants(tree, [TORCH_ID])] == [TORCH_ID]
    (xla,) = load_variants(tree, ["*-xla"])
    assert xla.ref == f"{torch().ref}-xla"
    assert xla.lock_folder == f"{torch().lock_folder}-xla"
