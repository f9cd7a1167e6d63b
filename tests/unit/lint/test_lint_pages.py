"""Each rule has a page, whose bad example it finds and whose good example it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlc_lint import lint
from dlc_lint.rules import ALL
from dlc_lint.script.parsing import UNUSED

PAGES = Path(__file__).parents[3] / "docs/lint"
CODES = [rule.code for rule in ALL]


def example(code: str, title: str) -> str:
    text = (PAGES / f"{code}.md").read_text()
    return re.search(rf"## {title}\n\n```python\n(.*?)```", text, re.DOTALL)[1]  # type: ignore[index]


@pytest.mark.parametrize("code", [*CODES, UNUSED])
def test_the_bad_example_is_found_and_the_good_one_is_not(code: str) -> None:
    assert [one.code for one in lint(example(code, "Bad"))] == [code]
    assert lint(example(code, "Good")) == []


@pytest.mark.parametrize("code", CODES)
def test_the_page_says_why_and_where_it_comes_from(code: str) -> None:
    text = (PAGES / f"{code}.md").read_text()
    rule = next(rule for rule in ALL if rule.code == code)
    assert text.startswith(f"# {code}: {rule.title}\n")
    assert "\n## Why\n" in text
    assert "\nSource: " in text
    assert rule.fixable == ("`--fix`" in text)


def test_the_table_names_every_rule_and_no_other() -> None:
    table = dict(re.findall(r"^\| \[(DLC\d+)\]\(\1\.md\) \| (.*?) \|", (PAGES / "README.md").read_text(), re.MULTILINE))
    assert table.pop(UNUSED)
    assert table == {rule.code: rule.title for rule in ALL}
    assert {path.stem for path in PAGES.glob("DLC*.md")} == {*CODES, UNUSED}
