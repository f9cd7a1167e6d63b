"""docs/glossary.md: one meaning a word. Uses of a word with another meaning are counted; there are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from dlc.core.checkout import find_root

ROOT = find_root()
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
JOBS = ("src/entrypoint", "src/dlc_runtime", "src/dlc_channel", "src/dlc/places", "src/dlc/job", "src/dlc/tune")
JOB_PAGES = (
    *("README.md", "docs/clusters", "docs/clusters.md", "docs/launcher.md", "docs/launcher-reference.md"),
    *("docs/supervision.md", "docs/heterogeneous.md", "docs/running.md", "docs/using.md", "docs/scale.md"),
    *("docs/clients.md", "docs/compiler.md", "docs/efa.md", "docs/stability.md", "docs/first-image.md"),
)


class Rule(NamedTuple):
    """A word, by a pattern of the meaning that it must not have, where that would be, and what may be on its line."""

    word: str
    forbidden: str
    where: tuple[str, ...]
    unless: str = "(?!)"


RULES = [
    Rule("platform", r"\b[Pp]latforms?\b", JOB_PAGES, r"linux/|`platform`"),
    Rule("platform", r"\b(the|a|by|no|other|every|training) platforms?\b|platform's", JOBS, "image|linux/"),
    Rule("engine", r"\b[Ee]ngines?\b", ("docs/clusters.md", "docs/clusters"), "Docker"),
    Rule("channel", r"[Cc]hannel (between|is authen|is not enc)|(hosts'|group's) channel", ("docs", "src")),
]


def uses(rule: Rule) -> Iterator[str]:
    """Yield the lines on which a word has the forbidden meaning."""
    for start in rule.where:
        path = ROOT / start
        files = [path] if path.is_file() else sorted((*path.rglob("*.md"), *path.rglob("*.py")))
        assert files, start
        for file in files:
            yield from (f"{file.relative_to(ROOT)}: {line}" for line in found_in(file.read_text(), rule))


def found_in(text: str, rule: Rule) -> list[str]:
    """Return the lines of a text that break a rule."""
    lines = text.splitlines()
    return [line for line in lines if re.search(rule.forbidden, line) and not re.search(rule.unless, line)]


@pytest.mark.parametrize("rule", RULES, ids=[f"{rule.word}-{rule.where[0]}" for rule in RULES])
def test_a_word_has_no_other_meaning(rule: Rule) -> None:
    assert [*uses(rule)] == []


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0, "A platform mounts a folder at /opt/ml."),
        (1, "    # Seconds until the platform's own SIGKILL"),
        (2, "The job goes to an engine that exists."),
        (3, "The channel between the hosts is not encrypted."),
    ],
)
def test_another_meaning_is_found(number: int, line: str) -> None:
    assert found_in(line, RULES[number]) == [line]


def test_each_word_stands_once_and_in_order() -> None:
    for part in GLOSSARY.split("\n## ")[1:]:
        words = re.findall(r"^\| ([\w -]+) \| (.+) \| .* \|$", part, re.MULTILINE)[1:]
        names = [name for name, _ in words]
        assert names == sorted(set(names))
        assert [name for name, meaning in words if not meaning.strip("- ")] == []
    assert {rule.word for rule in RULES} <= set(re.findall(r"^\| ([\w -]+) \|", GLOSSARY, re.MULTILINE))


def test_no_page_but_the_measurements_tells_history() -> None:
    """A commit by its number is history. It lies in git; why something is so, in the decisions."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    told = re.compile(r"\b(commits?|since|before|after) `?(?=[a-f]*\d)[0-9a-f]{7,40}\b")
    texts = {page.name: re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE) for page in pages}
    assert [name for name, text in texts.items() if name != "measurements.md" and told.search(text)] == []
