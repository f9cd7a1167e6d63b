"""docs/clients.md: each row names a test that is there, or says that there is none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/clients.md").read_text()
HEAD = "| way | hosts | works | test |"
UNTESTED = "not tested"
TOOLKITS = "| theirs | ours, or why there is none |"


def rows_of(page: str, head: str = HEAD) -> list[list[str]]:
    """Return the cells of each row below each head of a table of clients."""
    found = []
    for table in page.split(head)[1:]:
        lines = table.strip().splitlines()[1:]
        for line in lines:
            if not line.startswith("|"):
                break
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


@cache
def list_tests(file: Path) -> frozenset[str]:
    """Return the names of the tests of a file."""
    return frozenset(node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef))


def find_fault(cell: str) -> str:
    """Return what is wrong with the last cell of a row; empty if nothing is."""
    if cell == UNTESTED:
        return ""
    named = re.fullmatch(r"`((?:unit|process|library|container|integration)/[\w/]+\.py)(?:::(test_\w+))?`", cell)
    if not named:
        return f"expected a test or {UNTESTED!r}, found {cell!r}"
    file = ROOT / "tests" / named[1]
    if not file.is_file():
        return f"no file {named[1]}"
    if named[2] and named[2] not in list_tests(file):
        return f"no test {named[2]} in {named[1]}"
    return ""


def test_every_row_names_a_test_that_is_there_or_says_that_there_is_none() -> None:
    rows = rows_of(PAGE)
    assert len(rows) > 60
    assert [f"{row[0]}: {fault}" for row in rows if (fault := find_fault(row[-1]))] == []


def test_what_the_toolkits_test_has_a_test_here_or_a_reason() -> None:
    rows = rows_of(PAGE, TOOLKITS)
    assert len(rows) > 20
    assert [row for row in rows if len(row) != 2] == []
    faults = {theirs: find_fault(ours) for theirs, ours in rows if not re.fullmatch(r"none: \S.*\w", ours)}
    assert {theirs: fault for theirs, fault in faults.items() if fault} == {}


def test_only_what_no_image_can_run_is_not_tested() -> None:
    assert [row[2] for row in rows_of(PAGE) if row[-1] == UNTESTED] == ["no: AWS's own library, in no image"]


def test_every_row_has_a_way_hosts_what_becomes_of_it_and_a_test() -> None:
    assert [row for row in rows_of(PAGE) if len(row) != 4 or not row[0]] == []


def test_no_way_is_there_twice_with_the_same_hosts() -> None:
    """But for "the same", which is about the row above."""
    ways = [(section, row[0], row[1]) for section in PAGE.split("\n## ")[1:] for row in rows_of(section)]
    plain = [way for way in ways if not way[1].startswith("the same")]
    assert sorted({way for way in plain if plain.count(way) > 1}) == []


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("yes", "expected a test"),
        ("", "expected a test"),
        ("`integration/test_nothing.py::test_x`", "no file"),
        ("`integration/test_slurm.py::test_x`", "no test test_x"),
        ("`integration/test_slurm.py`", ""),
        (UNTESTED, ""),
    ],
)
def test_what_is_no_test_is_found(cell: str, said: str) -> None:
    assert find_fault(cell).startswith(said) if said else find_fault(cell) == ""
