"""HTML as values: text is escaped unless it is `Html`, and only this module and `documents.py` make `Html`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

# Elements that have no end tag.
VOID = ("br", "input", "link", "meta", "img", "hr")
# Addresses that a page may lead to; others, such as javascript:, become no link.
ADDRESS = re.compile(r"(?!\w+:)\S*|(?:https?://|mailto:)\S+")

# A version is no number: sizes and counts stand below each other.
SIZE = re.compile(r"[-+]?[\d.,]+ [kMG]?B")


class Html(str):
    """A text that is HTML already: it is not escaped again."""

    __slots__ = ()


# What an element may hold: escaped text, numbers, elements, nothing, and any order of these.
Child = str | int | float | None | Iterable["Child"]
Attribute = str | int | float | bool | None


def tag(name: str, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. `class_` is the attribute class, `aria_label` aria-label; True has no value, None is left out.

    Raises ValueError for a link to another kind of address than pages have.
    """
    for key in ("href", "src"):
        address = attributes.get(key)
        if isinstance(address, str) and not ADDRESS.fullmatch(address):
            raise ValueError(f"{name}: expected an address of a page, found {address[:60]!r}")
    shown = "".join(_render_attribute(key, value) for key, value in attributes.items())
    head = f"<{name}{shown}>"
    return Html(head if name in VOID else f"{head}{join(children)}</{name}>")


def join(children: Child, between: str = "") -> Html:
    """Return children one behind the other."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, (str, int, float)):
        return Html(escape(str(children)))
    return Html(escape(between).join(join(child) for child in children))


def _render_attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def make_table(heads: Iterable[str], rows: Iterable[Iterable[Child]], **attributes: Attribute) -> Html:
    """Return a table that scrolls by itself on a narrow page. Cells of numbers are aligned by the style's `number`."""
    names = list(heads)
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in names]))
    lines = [tag("tr", [_make_cell(name, cell) for name, cell in zip(names, row, strict=True)]) for row in rows]
    return tag("div", tag("table", head, tag("tbody", lines), **attributes), class_="wide", tabindex=0)


def _make_cell(name: str, cell: Child) -> Html:
    """Return a cell with the name of its column, which a narrow page shows beside it."""
    is_number = isinstance(cell, (int, float)) or (isinstance(cell, str) and bool(SIZE.fullmatch(cell)))
    return tag("td", cell, data_title=name, class_="number" if is_number else None)
