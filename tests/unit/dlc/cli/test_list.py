"""`dlc list`: whether an image is built from what the files say now, under headings that say whose a value is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.cli import run
from dlc.cli.list import as_text, find_states, format_built
from dlc.core.checkout import Tree
from dlc.engine.images import Image
from dlc.plan.plan import make_plan
from harness.specimen import PYTORCH_PATH, TORCH_ID, changed, specimen, write_tree


def image_of(tree: Tree, key: str = "", created: str = "2026-11-29T21:07:39Z") -> dict[str, Image]:
    """The image of the first framework as an engine has it."""
    target = make_plan(tree, [TORCH_ID]).target(TORCH_ID)
    return {target.tags[0]: Image(target.tags[0], "sha256:0123456789abcdef", key or target.key, created, 10**9)}


def state(tree: Tree, built: dict[str, Image]) -> str | None:
    return find_states(load_variants(tree, [TORCH_ID]), tree, built).get(TORCH_ID)


def test_an_image_is_built_stale_or_not_there() -> None:
    tree = specimen()
    assert state(tree, image_of(tree)) == "built"
    assert state(tree, image_of(tree, key="another")) == "stale"
    assert state(tree, {}) is None


def test_an_image_whose_lock_does_not_fit_the_files_is_stale() -> None:
    tree = specimen()
    built = image_of(tree)
    text = tree[PYTORCH_PATH].data.decode()
    newer = changed(tree, PYTORCH_PATH, text.replace("  - packages:", "  - extras: []\n    packages:"))
    other = changed(newer, "buildspec/pins.yml", newer["buildspec/pins.yml"].data.decode().replace("2.4.6", "2.4.5"))
    assert state(other, built) == "stale"


def test_the_headings_name_whose_lock_id_and_date_these_are() -> None:
    row = {"id": "x", "state": "built", "lock": "fresh", **format_built(next(iter(image_of(specimen()).values())))}
    heads = as_text([row, row]).splitlines()[0]
    assert heads.split("  ")[0] == "ID"
    for heading in ("IMAGE", "LOCK FILE", "IMAGE ID", "COMMIT DATE"):
        assert heading in heads
    assert "DIGEST" not in heads
    assert "CREATED" not in heads


def test_an_image_of_no_commit_has_no_date() -> None:
    [image] = image_of(specimen(), created="1970-01-01T00:00:00Z").values()
    assert format_built(image)["created"] == "-"


def test_json_has_the_state_beside_the_keys_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = specimen()
    write_tree(tree, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dlc.cli.list._read_built", lambda refs: image_of(tree))
    assert run(["list", TORCH_ID, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["state"] == "built"
    assert {"id", "lock", "digest", "created", "size", "ref"} <= row.keys()
    assert row["digest"] == "sha256:0123456789abcdef"
