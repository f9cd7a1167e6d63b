"""The README names what there is: targets, verbs, images, files. CI and the integration tests run its commands."""

from __future__ import annotations

import re

from dlc.buildspec.matrix import load_variants
from dlc.cli import VERBS
from dlc.core.checkout import find_root, read_tree

ROOT = find_root()
README = (ROOT / "README.md").read_text()


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|\n)make ([a-z-]+)", README))
    assert named
    assert named <= targets


def test_it_names_every_verb_and_no_others() -> None:
    assert {*re.findall(r"`(?:\.venv/bin/)?dlc ([a-z-]+)", README)} == {*VERBS, "help"}


def test_every_image_it_names_exists() -> None:
    named = set(re.findall(r"^\| `([a-z0-9.-]+-py\d+)` ", README, re.MULTILINE))
    assert named
    assert named <= {variant.id for variant in load_variants(read_tree(ROOT))}
