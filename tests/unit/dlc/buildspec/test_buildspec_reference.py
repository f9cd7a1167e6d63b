"""The documentation of the buildspec has every setting, in words, and is fresh."""

from __future__ import annotations

import re
from pathlib import Path

from dlc.buildspec.schema_docs import BEGIN, DOCUMENT, END, make_table, update_document
from dlc.checked_yaml.yaml_layers import parse_yaml
from dlc.core.checkout import find_root

ROOT = find_root(Path(__file__).parent)


def test_the_committed_table_is_fresh() -> None:
    text = (ROOT / DOCUMENT).read_text()
    assert BEGIN in text
    assert update_document(text) == text, "`dlc schema` writes it anew"


def test_every_default_is_documented() -> None:
    defaults, _ = parse_yaml((ROOT / "buildspec/defaults.yml").read_text(), "defaults.yml")
    assert defaults is not None
    own_names = re.compile(r"^(suites|labels|lists|packages\.missing|cuda_build_packages)\..*")
    paths = {own_names.sub(r"\1", path) for path, _ in defaults.leaves()}
    assert {path for path in paths if f"| `{path}` |" not in make_table()} == set()


def test_no_pattern_is_shown_to_people() -> None:
    assert "^" not in make_table()


def test_only_what_is_between_the_marks_is_written() -> None:
    assert update_document(f"a\n{BEGIN}old\n{END}b\n") == f"a\n{BEGIN}{make_table()}{END}b\n"
