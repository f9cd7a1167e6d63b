"""inspection.size: what a report says of an image, how two are compared, and what happens over the budget."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.models import Budget
from dlc.cli.size import as_dict, as_text, changes_as_text
from dlc.core.errors import ImageError, SelectorError
from dlc.inspection import size
from dlc.inspection.archive import Archive, Entry, Layer
from harness.image_facts import specimen_facts
from harness.specimen import TORCH_ID, specimen

FACTS = specimen_facts()
LAYERS = (
    Layer("", "ADD rootfs.tar /", {"lib/libc.so": Entry("file", 700, 0o755, "0:0", 0, "", "")}),
    Layer("", "RUN install six", {"lib/libc.so": Entry("file", 800, 0o755, "0:0", 0, "", "")}),
)
REPORT = size.make_report(FACTS, Archive("", {}, LAYERS))


def test_largest_packages_and_files_come_first() -> None:
    assert [share.name for share in REPORT.packages] == [
        "debian libc6 2.36-9",
        "python six 1.17.0",
        "debian tini 0.19.0",
    ]
    assert [(share.name, share.bytes) for share in REPORT.files] == [("/lib/libc.so", 800)]


def test_bytes_written_twice_are_told_with_both_layers() -> None:
    assert REPORT.hidden_bytes == 700
    assert "/lib/libc.so  of layer 1, written again by layer 2" in as_text(REPORT, 5)


def test_json_holds_the_same_and_is_cut_at_the_top() -> None:
    value = json.loads(json.dumps(as_dict(REPORT, None, 1)))
    assert value["bytes"] == 1_100
    assert len(value["packages"]) == 1
    assert [layer["bytes"] for layer in value["layers"]] == [1_000, 100]


def test_comparison_names_what_grew_came_and_went() -> None:
    libc, tini, six = FACTS.packages
    before = replace(FACTS, ref="old", packages=(libc, replace(tini, bytes=10), replace(six, name="five", bytes=90)))
    found = size.find_size_changes(before, FACTS)
    assert {(change.name, change.before, change.after) for change in found} == {
        ("debian tini", 10, 50), ("python five", 90, 0), ("python six", 0, 90)
    }  # fmt: skip
    text = changes_as_text(before, FACTS, found, 5)
    assert text.startswith("against old")
    assert "python five" in text


def test_over_budget_is_an_error_with_reason_size_and_what_is_largest() -> None:
    budget = Budget(gigabytes="1.6", why="torch is large")
    size.require_within(budget, 1_600_000_000, "a", REPORT.packages)
    with pytest.raises(ImageError, match=r"at most 1.6 GB \(torch is large\), found 1.610\n  largest: debian libc6"):
        size.require_within(budget, 1_610_000_000, "a", REPORT.packages)


def test_over_the_compressed_budget_is_an_error_too_and_without_one_it_is_a_share_of_the_other() -> None:
    own = Budget(gigabytes="1.6", why="torch is large", compressed="0.5")
    size.require_within(own, 1, "a", REPORT.packages, 500_000_000)
    with pytest.raises(ImageError, match=r"at most 0\.5 GB compressed \(torch is large\), found 0\.510"):
        size.require_within(own, 1, "a", REPORT.packages, 510_000_000)
    shared = Budget(gigabytes="2", why="torch is large")
    size.require_within(shared, 1, "a", REPORT.packages, 1_500_000_000)
    with pytest.raises(ImageError, match=r"at most 1\.5 GB compressed"):
        size.require_within(shared, 1, "a", REPORT.packages, 1_510_000_000)


def test_an_identifier_and_a_reference_name_the_same_image() -> None:
    variants = load_variants(specimen())
    by_id = selection.find_image(TORCH_ID, variants)
    assert by_id == selection.find_image("dlc/pytorch:2.13-training-cpu-py311", variants)
    assert selection.find_image("someone/else:1", variants) == ("someone/else:1", None)


def test_an_unknown_identifier_is_an_error_with_the_nearest() -> None:
    with pytest.raises(SelectorError, match="did you mean"):
        selection.find_image(TORCH_ID.replace("2.13", "2.14"), load_variants(specimen()))
