"""What an image asks for: lists, extras, what it cannot have, and versions that the lock chooses within the rules."""

from __future__ import annotations

import pytest

from dlc.buildspec.lockfile import explain_staleness
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.list import note_missing
from dlc.core.checkout import Tree
from dlc.core.errors import DlcError, SpecError, UsageError
from harness.specimen import (
    COMPAT,
    DEFAULTS,
    PINS,
    PYTORCH,
    PYTORCH_PATH,
    TENSORFLOW_ID,
    TORCH_ID,
    changed,
    locked,
    pinned,
    unlocked,
)

LISTS = """\
  lists: [common]
  missing: {}
lists:
  common: [numpy, pandas]
  pytorch: [torchvision, numpy==2.0.0]
  ray: [ray==2.60.0]
extras: []
"""
NEWEST = """\
  pandas: "*"
  torchvision: "*"
"""


def tree_with(defaults: str = "", pytorch: str = PYTORCH, compat: str = COMPAT, pins: str = "") -> Tree:
    text = DEFAULTS.replace("  training: [transformers, numpy]\n", "  training: [transformers]\n")
    text = text.replace("  provides: {}\n", f"  provides: {{}}\n{defaults or LISTS}")
    tree = changed(unlocked(), "buildspec/defaults.yml", text)
    tree = changed(tree, "buildspec/pins.yml", PINS + NEWEST + pins)
    return changed(changed(tree, "buildspec/compat.yml", compat), PYTORCH_PATH, pytorch)


def torch(tree: Tree, *sets: str) -> Variant:
    (variant,) = load_variants(tree, ["pytorch-*"], sets)
    return variant


def test_an_image_has_the_packages_of_its_lists_and_its_own() -> None:
    assert torch(tree_with()).training_requirements == ("numpy==2.4.6", "pandas", "transformers==5.23.0")


def test_of_two_requirements_with_one_name_the_later_list_and_the_image_s_own_win() -> None:
    both = torch(tree_with(), "packages.lists=[common, pytorch]").training_requirements
    assert both == ("numpy==2.0.0", "pandas", "torchvision", "transformers==5.23.0")
    own = torch(tree_with(), "packages.lists=[common, pytorch]", "packages.training=[NumPy==2.1.0]")
    assert own.training_requirements == ("NumPy==2.1.0", "pandas", "torchvision")


def test_a_list_that_nobody_wrote_is_an_error_with_its_place_and_a_near_miss() -> None:
    with pytest.raises(UsageError) as caught:
        torch(tree_with(), "packages.lists=[common, pytorsh]")
    assert caught.value.message == (
        "--set packages.lists=[common, pytorsh]: packages.lists[1]: expected one of the lists (common, pytorch, ray), "
        "found 'pytorsh'; did you mean 'pytorch'?"
    )


def test_an_extra_is_another_image_with_a_lock_of_its_own() -> None:
    plain, extra = torch(tree_with()), torch(tree_with(), "extras=[ray]")
    assert extra.training_requirements == ("numpy==2.4.6", "pandas", "ray==2.60.0", "transformers==5.23.0")
    assert extra.lock_folder.startswith(f"{plain.lock_folder}-set-")
    assert extra.ref.startswith(f"{plain.ref}-set-")


MISSING = "packages.missing.pandas=no wheel fits"


def test_what_an_image_cannot_have_is_left_out_and_said_by_dlc_list() -> None:
    lines = note_missing(load_variants(tree_with(), (), [MISSING]))
    assert lines == [f"no pandas in {TORCH_ID}, {TENSORFLOW_ID}: no wheel fits"]
    assert torch(tree_with(), MISSING).training_requirements == ("numpy==2.4.6", "transformers==5.23.0")


def test_an_empty_reason_gives_it_back() -> None:
    lacking = tree_with(LISTS.replace("missing: {}", "missing: {Pandas: no wheel}"))
    assert "pandas" not in torch(lacking).training_requirements
    assert "pandas" in torch(lacking, "packages.missing.Pandas=").training_requirements


def test_an_extra_that_the_image_cannot_have_is_an_error_with_the_reason() -> None:
    lacking = tree_with(LISTS.replace("missing: {}", "missing: {ray: nothing fits}"))
    with pytest.raises(UsageError, match=r"expected packages that this image can have, found 'ray==2.60.0'; nothing"):
        torch(lacking, "extras=[ray]")
    assert "ray==2.60.0" in torch(lacking, "extras=[ray]", "packages.missing.ray=").training_requirements


RULES = """\
  - when: {framework: pytorch, version: ">=2.6"}
    then: {packages: {Pandas: ">=2, <3", numpy: ">=2"}}
    why: a reason
"""


def test_the_rules_limit_what_the_lock_may_choose_and_nothing_else() -> None:
    variants = load_variants(tree_with(compat=COMPAT + RULES))
    assert [variant.constraints for variant in variants] == [("pandas>=2,<3",), ()]


def test_a_rule_that_the_lock_keeps_to_does_not_make_it_stale_and_another_does() -> None:
    tree = locked(tree_with())
    folder = torch(tree).lock_folder
    tree = pinned(tree, folder, "training.txt", "pandas==2.3.0 \\\n    --hash=sha256:00\n")
    kept, broken = (
        changed(tree, "buildspec/compat.yml", COMPAT + text) for text in (RULES, RULES.replace(">=2, <3", ">=3"))
    )
    assert explain_staleness(kept, torch(kept)) == ""
    expected = f"{folder}/training.txt: stale: expected pandas>=3 (a rule of the released images), found pandas==2.3.0"
    assert explain_staleness(broken, torch(broken)) == expected


def test_a_rule_can_ask_for_a_package() -> None:
    rule = "  - when: {framework: pytorch}\n    then: {has: [torchvision]}\n    why: everybody imports it\n"
    with pytest.raises(SpecError, match=r"packages: expected torchvision because everybody imports it .*, found none"):
        load_variants(tree_with(compat=COMPAT + rule))
    assert torch(tree_with(LISTS.replace("[common]", "[common, pytorch]"), compat=COMPAT + rule))


def test_what_contains_another_package_must_be_there_in_an_exact_version() -> None:
    with pytest.raises(
        UsageError, match=r"packages.provides.jax: expected a package that packages.framework asks for as"
    ):
        torch(tree_with(LISTS), "packages.provides.jax=jax-cpu")


@pytest.mark.parametrize("text", ["1.2.x", ">=1", "**"])
def test_only_a_version_or_a_star_is_a_pin(text: str) -> None:
    with pytest.raises(DlcError, match=r"an exact version, or \* for the newest that fits|PEP 440"):
        load_variants(tree_with(pins=f'  other: "{text}"\n'))
