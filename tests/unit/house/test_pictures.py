"""The pictures of the pages are what scripts/pictures.py draws; they fit, and a telephone shows them readably."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pictures
import pytest

from dlc.core.checkout import find_root

DOCS = find_root() / "docs"
SVG = "{http://www.w3.org/2000/svg}"
# Of a telephone, without the margins of a page.
TELEPHONE = 358
# Of its size: a letter of a sans-serif font, on average.
LETTER_WIDTH = 0.56
each = pytest.mark.parametrize("name", pictures.PICTURES)


def draw(name: str) -> ET.Element:
    return ET.fromstring(pictures.PICTURES[name]().as_svg())


@each
def test_the_file_is_what_the_script_draws(name: str) -> None:
    written = (pictures.FOLDER / f"{name}.svg").read_text()
    assert written == pictures.PICTURES[name]().as_svg(), "python scripts/pictures.py"


def test_there_are_no_others_and_a_page_shows_each() -> None:
    assert sorted(path.stem for path in pictures.FOLDER.iterdir()) == sorted(pictures.PICTURES)
    pages = "\n".join(path.read_text() for path in DOCS.glob("*.md"))
    assert {name for name in pictures.PICTURES if f"](pictures/{name}.svg)" in pages} == {*pictures.PICTURES}


@each
def test_letters_are_readable_on_a_telephone_and_every_line_is_inside(name: str) -> None:
    root = draw(name)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert pictures.LETTER * TELEPHONE / width >= 10
    for text in root.iter(f"{SVG}text"):
        length = len(text.text or "") * pictures.LETTER * LETTER_WIDTH
        x = float(text.attrib["x"]) - (length / 2 if "middle" in text.attrib["class"] else 0)
        assert left <= x, text.text
        assert x + length <= left + width, text.text
        assert top <= float(text.attrib["y"]) <= top + height, text.text


@each
def test_the_words_of_a_box_fit_it(name: str) -> None:
    root = draw(name)
    for box in root.iter(f"{SVG}rect"):
        if box.attrib["class"] in ("page", "group"):
            continue
        x, y, width, height = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        inside = [
            text for text in root.iter(f"{SVG}text")
            if text.attrib["x"] == f"{x + width / 2:g}" and y < float(text.attrib["y"]) < y + height
        ]  # fmt: skip
        assert inside
        assert max(len(text.text or "") for text in inside) * pictures.LETTER * LETTER_WIDTH <= width


@each
def test_it_needs_nothing_else_and_has_dark_colours(name: str) -> None:
    text = pictures.PICTURES[name]().as_svg()
    assert not re.search(r"(?<!xmlns=\")https?://|url\(|@import|<script", text)
    style = text.partition("<style>")[2].partition("</style>")[0]
    used = {*re.findall(r"var\((--\w+)\)", style)}
    light, dark = style.partition("@media (prefers-color-scheme: dark)")[::2]
    assert used == {*re.findall(r"(--\w+): #", light)} == {*re.findall(r"(--\w+): #", dark)}
