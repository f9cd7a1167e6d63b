"""Reads the pages of a site: every link, picture, style and script must lead to a file of it, and to a place there."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote

LEADING = {"a": "href", "link": "href", "script": "src", "img": "src", "form": "action"}
OTHER_HOSTS = ("http://", "https://", "mailto:")
VOID = ("br", "hr", "img", "input", "link", "meta")


@dataclass
class Page(HTMLParser):
    """What a page names: its places, where it leads, text in scripts and styles, elements that are not closed."""

    ids: Counter[str] = field(default_factory=Counter)
    leads: list[tuple[str, str]] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element names."""
        given = dict(attrs)
        if tag not in VOID:
            self.left_open.append(tag)
        if name := given.get("id"):
            self.ids[name] += 1
        if (address := given.get(LEADING.get(tag, ""))) is not None:
            self.leads.append((tag, address or ""))
        self.inline += [f"{tag} {key}" for key in given if key == "style" or key.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read `<img />`, which needs no end, as `<img>`."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Note an end without its beginning."""
        if not self.left_open or self.left_open.pop() != tag:
            self.misplaced.append(tag)


def read_page(text: str) -> Page:
    """Parse one page."""
    page = Page()
    page.feed(text)
    page.close()
    return page


def list_lost(files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield each link that leads to no file, or to no place of it; each thing that another host would give."""
    pages = {path: read_page(data.decode()) for path, data in files.items() if path.endswith(".html")}
    for path, page in pages.items():
        for tag, address in page.leads:
            if address.startswith(OTHER_HOSTS):
                if tag != "a":
                    yield f"{path}: <{tag}> from another host: {address}"
                continue
            name, _, anchor = address.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(name))) if name else path
            if target not in files:
                yield f"{path}: {address}: no such file"
            elif anchor and target in pages and not pages[target].ids[unquote(anchor)]:
                yield f"{path}: {address}: no such place"


def list_faults(files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield what the policy of the pages forbids, ids that stand twice, and elements that do not fit together."""
    for path, data in files.items():
        if path.endswith(".html"):
            page = read_page(data.decode())
            twice = [name for name, count in page.ids.items() if count > 1]
            found = {"inline": page.inline, "id twice": twice, "left open": page.left_open, "misplaced": page.misplaced}
            yield from (f"{path}: {what}: {faults}" for what, faults in found.items() if faults)
