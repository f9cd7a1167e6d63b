"""Pages lead to each other: every link has its file and its heading, every decision its line in the index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dlc.core.checkout import find_root

ROOT = find_root()
DECISIONS = ROOT / "docs/decisions"
MOST_LINES = 15


def pages() -> list[Path]:
    """Return the pages of the repository, none of its environments and build folders."""
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the file and the heading of each link that leads to no other host."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            name, _, heading = target.partition("#")
            yield name, heading


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    lost = []
    for page in pages():
        for name, heading in links(page):
            target = page.parent / name if name else page
            if not target.exists() or (heading and target.suffix == ".md" and heading not in headings(target)):
                lost.append(f"{page.relative_to(ROOT)}: {name}#{heading}")
    assert pages()
    assert lost == []


def test_every_decision_is_short_and_in_the_index() -> None:
    records = sorted(DECISIONS.glob("0*.md"))
    index = (DECISIONS / "README.md").read_text()
    lines = [f"- [{record.name[:4]}]({record.name}) {title_of(record)}" for record in records]
    assert lines == re.findall(r"^- \[.*$", index, re.MULTILINE)
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text()
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], (
            record.name
        )
        assert len(text.splitlines()) <= MOST_LINES, record.name


def title_of(record: Path) -> str:
    """Return a record's title without its number."""
    return record.read_text().splitlines()[0].partition(". ")[2]
