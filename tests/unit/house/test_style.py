"""The rules of docs/style.md that can be counted, in src and on pages. A broken rule names the files to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.prose import Prose, Share, add_up, count_page, count_prose, read_prose

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src"
# The largest share, in percent, of each kind; the last is of all "where" and "if" together
MOST = {
    "docstrings_without_verb": 20,
    "comments_at_line_ends": 25,
    "names_of_one_word": 40,
    "where_for_if": 50,
}
# Words that stand for a noun ("one", "none", "what"), in a thousand words. A bound may fall, and never rises.
MOST_FOR_NOUNS = {"src": 29.4, "pages": 19.8}
WORST = 5


@pytest.fixture(scope="module")
def prose() -> dict[Path, Prose]:
    return read_prose(SOURCES)


@pytest.mark.parametrize(("kind", "most"), MOST.items(), ids=MOST)
def test_the_prose_of_src_keeps_to_the_rules(prose: dict[Path, Prose], kind: str, most: int) -> None:
    share: Share = getattr(add_up(prose.values()), kind)
    by_count = sorted(prose, key=lambda file: getattr(prose[file], kind).found, reverse=True)[:WORST]
    worst = [f"{file.relative_to(SOURCES)}: {getattr(prose[file], kind).found}" for file in by_count]
    assert share.of, kind
    assert share.percent <= most, f"{kind}: {share.percent:.0f}%, at most {most}% (docs/style.md); begin with {worst}"


def test_few_words_in_src_stand_for_a_noun(prose: dict[Path, Prose]) -> None:
    require_few("src", {str(file.relative_to(ROOT)): each.words_for_nouns for file, each in prose.items()})


def test_few_words_on_pages_stand_for_a_noun() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    require_few("pages", {str(page.relative_to(ROOT)): count_page(page.read_text()) for page in pages})


def require_few(kind: str, found: dict[str, Share]) -> None:
    """Assert that in a thousand words no more stand for a noun than the bound says."""
    share = Share(sum(each.found for each in found.values()), sum(each.of for each in found.values()))
    worst = sorted(found, key=lambda name: found[name].found, reverse=True)[:WORST]
    assert share.of
    assert share.per_thousand <= MOST_FOR_NOUNS[kind], f"{share.per_thousand:.1f} in 1,000; begin with {worst}"


EXAMPLE = '''"""What a module is, where it lies."""

SECONDS = 1.0  # how long
# Why it is so
LIMIT = 2  # noqa: E501


def read_file(name: str) -> str:
    """Return the text if there is one."""


class Reader:
    def __init__(self) -> None:
        """The reader."""

    def run(self) -> None: ...
'''


def test_what_is_counted() -> None:
    found = count_prose(EXAMPLE)
    assert found.docstrings_without_verb == (1, 2)
    assert found.where_for_if == (1, 2)
    assert found.comments_at_line_ends == (1, 2)
    assert found.names_of_one_word == (1, 2)
    assert found.words_for_nouns == (2, 22)
    assert count_page("The one of `none` is what counts.\n```\nnone\n```\n") == (2, 6)
    assert add_up([found, found]).where_for_if == (2, 4)
