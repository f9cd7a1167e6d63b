"""The pages of the documentation, which `dlc help` prints: a checkout has them, and so has a wheel."""

from __future__ import annotations

from pathlib import Path

from dlc.core.checkout import INSTALLED, OWN

# Folders of pages, by their paths from the root.
FOLDERS = ("docs", "docs/clusters", "docs/lint")
ENDING = ".md"
# An index of its folder, not a page of its own.
INDEX = "README"


def list_pages() -> dict[str, Path]:
    """Map the names of all pages to their files."""
    root = next((root for root in (OWN, INSTALLED) if (root / FOLDERS[0]).is_dir()), INSTALLED)
    files = [path for folder in FOLDERS for path in (root / folder).glob(f"*{ENDING}")]
    return {path.stem: path for path in sorted(files) if path.stem != INDEX}


def read_page(name: str) -> str | None:
    """Return the text of a page; None if there is none of that name, with or without its ending."""
    path = list_pages().get(name.removesuffix(ENDING))
    return path.read_text() if path else None


def describe_pages() -> str:
    """Return a line for each page: its name and its title."""
    pages = list_pages()
    width = max(map(len, pages), default=0) + 2
    return "\n".join(f"{name:<{width}}{_read_title(path)}" for name, path in sorted(pages.items()))


def _read_title(path: Path) -> str:
    with path.open() as lines:
        return lines.readline().lstrip("# ").rstrip()
