"""docs/stability.md: each interface has the version that the code has, and others can read it where the page says."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

import dlc
from dlc.advice import profile_report
from dlc.buildspec import schema_docs
from dlc.cli.schema import make_job_texts
from dlc.core.checkout import find_root
from dlc.proof.index import INDEX_TYPE
from dlc.proof.provenance import BUILD_TYPE
from dlc_runtime.compiler.report import merge
from dlc_runtime.profile import session
from harness.rank_report import rank_report

ROOT = find_root(Path(__file__).parent)
PAGE = (ROOT / "docs/stability.md").read_text()
ROW = re.compile(r"^\| (?P<name>.+?) \| (?P<version>\d+) \| `(?P<place>[\w.]+)`", re.MULTILINE)
ROWS = [match.group("version", "place") for match in ROW.finditer(PAGE)]


def read_number(place: str) -> str:
    """The number in a value of the code: 1, `1.0.0`, `dlc/2`, `urn:dlc:build:1`."""
    module, _, name = place.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    text = value.decode() if isinstance(value, bytes) else str(value)
    return text.partition(".")[0] if name == "__version__" else re.split("[/:]", text)[-1]


@pytest.mark.parametrize(("version", "place"), ROWS, ids=[place for _, place in ROWS])
def test_the_page_has_the_number_of_the_code(version: str, place: str) -> None:
    assert read_number(place) == version


def test_the_page_names_each_interface_once() -> None:
    places = [place for _, place in ROWS]
    assert len(places) == len(set(places)) == 11
    assert "dlc.__version__" in places


def test_every_schema_says_the_version_of_what_it_describes() -> None:
    texts = {**schema_docs.make_schemas(), **make_job_texts({})}
    found = {json.loads(text)["$id"] for text in texts.values()}
    assert len(found) == len(texts)
    assert {each.rpartition(":")[0] for each in found} == {f"urn:dlc:schema:{schema_docs.VERSION}"}
    assert f"`urn:dlc:schema:{schema_docs.VERSION}:pins`" in PAGE


def test_reports_say_their_version() -> None:
    assert merge.merge_records([rank_report()])["version"] == merge.VERSION
    # What the library writes in an image, dlc reads.
    assert profile_report.VERSION == session.VERSION
    assert f"`{BUILD_TYPE}`" in PAGE
    assert f"`{INDEX_TYPE}`" in PAGE


def test_the_changelog_has_a_part_for_this_version() -> None:
    assert f"\n## [{dlc.__version__}] - " in (ROOT / "CHANGELOG.md").read_text()
