"""The rules of docs/style.md that can be counted, over all of src. A broken rule names the files to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.prose import Prose, Share, add_up, count_prose, read_prose

SOURCES = Path(__file__).parents[3] / "src"
# The largest share, in percent, of each kind; the last is of all "where" and "if" together
MOST = {
    "docstrings_without_verb": 20,
    "comments_at_line_ends": 25,
    "names_of_one_word": 40,
    "where_for_if": 50,
}
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
    assert add_up([found, found]).where_for_if == (2, 4)
