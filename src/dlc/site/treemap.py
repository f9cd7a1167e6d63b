"""Treemaps: areas in proportion to bytes, in groups, laid out in rows near to squares, drawn as an SVG. Pure.

The layout is the squarified one of Bruls, Huizing and van Wijk (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlc.core.text import format_bytes
from dlc.site.elements import Html, tag

# Units: width and height of the drawing for a wide page and for a narrow one, which shows letters of 13 with 10 pixels.
WIDE, NARROW = (1120, 440), (480, 640)
LETTER, LINE = 13, 16
# The width of a letter, in parts of its height.
LETTER_SHARE = 0.6
GAP, EDGE = 1.0, 3.0
# Groups smaller than that have no room for a head and areas.
SMALLEST_GROUP = 48
# Areas below this part of the whole are drawn as one: nobody could point at them.
SMALLEST_SHARE = 0.003


@dataclass(frozen=True)
class Area:
    """Something that takes bytes. `kind` is the class of its colour, `detail` what its tooltip adds."""

    name: str
    bytes: int
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Group:
    """A layer: its name, its bytes, what its tooltip adds, and areas in it, which may be none."""

    name: str
    bytes: int
    areas: tuple[Area, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Box:
    """A rectangle, in units."""

    x: float
    y: float
    width: float
    height: float


def render_treemap(groups: Sequence[Group], label: str) -> Html:
    """Return two drawings, of which the style shows the one for the page's width. `label` says what they show."""
    ordered = sorted((group for group in groups if group.bytes > 0), key=lambda group: -group.bytes)
    drawn = []
    for kind, (width, height) in (("wide-only", WIDE), ("narrow-only", NARROW)):
        boxes = lay_out([group.bytes for group in ordered], Box(0, 0, width, height))
        least = sum(group.bytes for group in ordered) * SMALLEST_SHARE
        parts = [_draw_group(group, box, least) for group, box in zip(ordered, boxes, strict=True)]
        drawn.append(tag("svg", parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=label,
                         class_=f"treemap {kind}"))  # fmt: skip
    return tag("div", drawn)


def merge_small(areas: Sequence[Area], least: float) -> list[Area]:
    """Return areas with bytes, the largest first, those below `least` as one, of their kind if they have one."""
    found = sorted((area for area in areas if area.bytes > 0), key=lambda area: (-area.bytes, area.name))
    small = [area for area in found if area.bytes < least]
    if len(small) < 2:
        return found
    kinds = {area.kind for area in small}
    kind = kinds.pop() if len(kinds) == 1 else "others"
    rest = Area(f"{len(small)} others", sum(area.bytes for area in small), kind)
    kept = [area for area in found if area.bytes >= least]
    return sorted([*kept, rest], key=lambda area: -area.bytes)


def lay_out(sizes: Sequence[int], whole: Box) -> list[Box]:
    """Return a box for each size, in their order, which is from the largest down; together they fill `whole`."""
    scale = whole.width * whole.height / (sum(sizes) or 1)
    left, found = [size * scale for size in sizes], []
    while left:
        side = min(whole.width, whole.height)
        count = _count_row(left, side)
        row, left = left[:count], left[count:]
        boxes, whole = _place_row(row, whole)
        found += boxes
    return found


def _count_row(sizes: Sequence[float], side: float) -> int:
    """Return how many of the sizes give the row whose worst box is nearest to a square."""
    count = 1
    while count < len(sizes) and _worst_ratio(sizes[: count + 1], side) <= _worst_ratio(sizes[:count], side):
        count += 1
    return count


def _worst_ratio(row: Sequence[float], side: float) -> float:
    total = sum(row)
    return max(max(side * side * size / total**2, total**2 / (side * side * size)) for size in row)


def _place_row(row: Sequence[float], whole: Box) -> tuple[list[Box], Box]:
    """Place a row along the shorter side; return its boxes and what is left of the whole."""
    total, boxes = sum(row), []
    if whole.width >= whole.height:
        depth, place = total / whole.height, whole.y
        for size in row:
            boxes.append(Box(whole.x, place, depth, size / depth))
            place += size / depth
        return boxes, Box(whole.x + depth, whole.y, max(whole.width - depth, 0), whole.height)
    depth, place = total / whole.width, whole.x
    for size in row:
        boxes.append(Box(place, whole.y, size / depth, depth))
        place += size / depth
    return boxes, Box(whole.x, whole.y + depth, whole.width, max(whole.height - depth, 0))


def _draw_group(group: Group, box: Box, least: float) -> Html:
    """Draw a layer, with its areas if there is room for them."""
    shell = _draw_cell(Area(group.name, group.bytes, "layer", group.detail), box, in_one_line=True)
    areas = merge_small(group.areas, least)
    if not areas or min(box.width, box.height) < SMALLEST_GROUP:
        return shell
    inner = Box(box.x + EDGE, box.y + LINE + EDGE, box.width - 2 * EDGE, box.height - LINE - 2 * EDGE)
    boxes = lay_out([area.bytes for area in areas], inner)
    return tag("g", shell, [_draw_cell(area, place) for area, place in zip(areas, boxes, strict=True)])


def _draw_cell(area: Area, box: Box, *, in_one_line: bool = False) -> Html:
    size = format_bytes(area.bytes)
    tip = tag("title", f"{area.name}: {size}" + (f"\n{area.detail}" if area.detail else ""))
    width, height = max(box.width - GAP, 0.1), max(box.height - GAP, 0.1)
    shape = tag("rect", x=f"{box.x:.1f}", y=f"{box.y:.1f}", width=f"{width:.1f}", height=f"{height:.1f}",
                class_=f"area {area.kind}")  # fmt: skip
    room = int((box.width - 8) / (LETTER * LETTER_SHARE))
    words = [f"{area.name}, {size}"] if in_one_line else [area.name, size if len(size) <= room else ""]
    lines = [text for text in (_cut(word, room) for word in words) if text]
    shown = lines if LINE * len(lines) + 4 <= box.height else lines[:1] if box.height >= LINE + 4 else []
    texts = [tag("text", line, x=f"{box.x + 4:.1f}", y=f"{box.y + LINE * (index + 1) - 2:.1f}",
                 class_="bytes" if index else None) for index, line in enumerate(shown)]  # fmt: skip
    return tag("g", tip, shape, texts)


def _cut(text: str, room: int) -> str:
    """Return a text that fits, or nothing if less than four letters of it would be left."""
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}\u2026" if room >= 5 else ""
