"""The page that says in which versions compiled code is silently wrong has a row for each reproducer."""

from __future__ import annotations

import re

from dlc.core.checkout import find_root

ROW = re.compile(r"^\| (\d+) \| (.+?) \| (?:(?:wrong|raises|-)? ?\| ?){4}$", re.MULTILINE)
REPRODUCER = re.compile(r'reproduces\((\d+), "(.+?)"[,)]')


def test_each_reproducer_has_a_row_with_what_is_wrong() -> None:
    files = sorted((find_root() / "tests/library/compiler/reproducers").glob("*.py"))
    made = [found for file in files for found in REPRODUCER.findall(file.read_text())]
    page = (find_root() / "docs/measurements.md").read_text()
    assert len(made) >= 30
    assert sorted(made) == sorted(ROW.findall(page))
