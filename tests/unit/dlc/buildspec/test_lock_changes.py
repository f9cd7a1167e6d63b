"""What `dlc lock` says of a lock: what came, went and changed against the lock before, or the image below."""

from __future__ import annotations

from collections.abc import Mapping

from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.lock_images import SHOWN, describe_change
from harness.specimen import TORCH_ID, specimen

[TORCH] = load_variants(specimen(), [TORCH_ID])
NEW = {"einops": "0.8.2", "numpy": "2.4.6", "torch": "2.13.0"}


def said(before: Mapping[str, str], released: Mapping[str, str], new: Mapping[str, str] = NEW) -> list[str]:
    return describe_change(TORCH, before, released, new).splitlines()


def test_a_first_lock_is_compared_with_the_image_below() -> None:
    head, *lines = said({}, {"numpy": "2.4.6", "torch": "2.13.0"})
    assert head == f"{TORCH.lock_folder}: 3 packages; 1 change against the image below"
    assert lines == ["  + einops 0.8.2"]


def test_a_later_lock_is_compared_with_the_one_before() -> None:
    head, *lines = said({"numpy": "2.4.5", "six": "1.17", "torch": "2.13.0"}, {"torch": "2.0"})
    assert head.endswith("; 3 changes against the lock before")
    assert lines == ["  + einops 0.8.2", "  ~ numpy 2.4.5 -> 2.4.6", "  - six 1.17"]


def test_a_lock_that_is_the_same_says_so_and_a_first_one_of_nothing_below_is_counted() -> None:
    assert said(NEW, {}) == [f"{TORCH.lock_folder}: 3 packages; no changes against the lock before"]
    assert said({}, {}) == [f"{TORCH.lock_folder}: 3 packages"]


def test_of_many_changes_the_rest_is_counted() -> None:
    lines = said({"torch": "1"}, {}, {**NEW, **{f"p{number}": "1" for number in range(SHOWN)}})
    assert len(lines) == SHOWN + 2
    assert lines[-1] == "  and 3 more"
