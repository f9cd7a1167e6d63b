"""Markdown pages of the repository as HTML: anchors, links between them, charts of marked tables, sections to search.

Raw HTML in a page is shown as text; comments are left out. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dlc.core.errors import SpecError
from dlc.site import charts
from dlc.site.elements import ADDRESS, Html

COMMENT = re.compile(r"\s*<!--.*?-->\s*", re.DOTALL)
RAW = ("html_block", "html_inline")


@dataclass(frozen=True)
class Section:
    """A heading with the text below it: what a search finds. `anchor` is empty above the first heading."""

    anchor: str
    title: str
    level: int
    text: str


@dataclass(frozen=True)
class Document:
    """A page of the repository. `path` is that of its HTML, `linked` are other files that it leads to."""

    path: str
    title: str
    body: Html
    sections: tuple[Section, ...]
    linked: frozenset[str]


def page_path(path: str) -> str:
    """Return the path of a page's HTML: `docs/build.md` -> `docs/build.html`."""
    return f"{path.removesuffix('.md')}.html"


def relative_path(target: str, page: str) -> str:
    """Return a path of the site as a link from one of its pages."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def render_document(path: str, text: str, documents: Collection[str], files: Collection[str]) -> Document:
    """Render one page. Links to `documents` lead to their HTML, those to `files` stay, others lose their link.

    Raises SpecError for a chart that its table cannot give.
    """
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    try:
        tokens = _draw_charts(parser.parse(text))
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from None
    anchors = _set_anchors(tokens)
    linked: set[str] = set()
    for token in _walk(tokens):
        if token.type in ("link_open", "image"):
            linked |= _lead_link(token, path, documents, files)
    _hide_lost_ends(tokens)
    body = str(parser.renderer.render(tokens, parser.options, {}))
    # A table in a text is escaped: these are elements.
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    sections = tuple(_split_sections(tokens, anchors))
    title = next((section.title for section in sections if section.title), path)
    return Document(page_path(path), title, Html(body), sections, frozenset(linked))


def _walk(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def make_anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _set_anchors(tokens: Sequence[Token]) -> dict[int, str]:
    """Give each heading its anchor; return anchors by the heading's place."""
    found: dict[int, str] = {}
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            own = make_anchor(tokens[place + 1].content)
            count = sum(1 for other in found.values() if re.fullmatch(rf"{re.escape(own)}(-\d+)?", other))
            found[place] = f"{own}-{count}" if count else own
            token.attrSet("id", found[place])
    return found


def _lead_link(token: Token, path: str, documents: Collection[str], files: Collection[str]) -> set[str]:
    """Let a link or a picture lead to where its target is in the site; return the file that it needs, if any."""
    key = "src" if token.type == "image" else "href"
    address = str(token.attrGet(key) or "")
    if re.match(r"\w+:|#", address):
        token.hidden = not ADDRESS.fullmatch(address)
        return set()
    name, _, anchor = address.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    readme = posixpath.normpath(posixpath.join(target, "README.md"))
    target = target if target in documents or readme not in documents else readme
    if target in documents:
        token.attrSet(key, relative_path(page_path(target), path) + (f"#{anchor}" if anchor else ""))
        return set()
    token.hidden = target not in files
    return {target} & {*files}


def _hide_lost_ends(tokens: Sequence[Token]) -> None:
    """Hide the end of each link whose beginning is hidden."""
    is_hidden = False
    for token in _walk(tokens):
        if token.type == "link_open":
            is_hidden = token.hidden
        elif token.type == "link_close":
            token.hidden = is_hidden


def _draw_charts(tokens: list[Token]) -> list[Token]:
    """Put a chart in the place of each comment that asks for one; other raw HTML becomes text, comments nothing."""
    for place, token in enumerate(tokens):
        for raw in (each for each in _walk([token]) if each.type in RAW):
            is_comment = COMMENT.fullmatch(raw.content)
            raw.content = (raw.content if is_chart(raw) else "") if is_comment else escape(raw.content)
        if token.type == "html_block" and is_chart(token):
            token.content = charts.render_chart(charts.make_chart(token.content, *_read_table(tokens[place + 1 :])))
    return tokens


def is_chart(token: Token) -> bool:
    """Tell whether a comment asks for a chart."""
    return token.content.lstrip().startswith("<!-- chart")


def _read_table(tokens: Sequence[Token]) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table with which these tokens begin. Raises ValueError if they do not."""
    if not tokens or tokens[0].type != "table_open":
        raise ValueError("chart: expected a table right below it, found none")
    rows: list[list[str]] = []
    for place, token in enumerate(tokens):
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(_plain_text(tokens[place + 1]))
    return rows[0], rows[1:]


def _plain_text(token: Token) -> str:
    """Return the text of a line without its marks."""
    return "".join(child.content if child.type in ("text", "code_inline") else " "
                   for child in token.children or () if child.type not in RAW and not child.type.endswith("_close")
                   and not child.type.endswith("_open"))  # fmt: skip


def _split_sections(tokens: Sequence[Token], anchors: dict[int, str]) -> Iterator[Section]:
    """Yield every section with its text, for the search."""
    anchor, title, level, words = "", "", 0, list[str]()
    for place, token in enumerate(tokens):
        if place in anchors:
            if title or words:
                yield Section(anchor, title, level, " ".join(words))
            anchor, title, level, words = anchors[place], _plain_text(tokens[place + 1]), int(token.tag[1:]), []
        elif token.type == "inline" and place - 1 not in anchors:
            words.append(_plain_text(token))
        elif token.type in ("fence", "code_block"):
            words.append(token.content)
    yield Section(anchor, title, level, " ".join(words))
