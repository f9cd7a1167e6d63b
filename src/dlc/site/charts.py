"""Charts of a table's columns: horizontal bars, as an SVG that light, dark and narrow pages show alike. Pure.

A page asks for one with a comment before its table: `<!-- chart: files, blocks in GB -->`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dlc.site.elements import Html, tag

MARKER = re.compile(r"<!-- chart: (.+?)(?: in ([^,]+))? -->")
# The first number of a cell, as in `1.10 (1.07 to 1.13)`.
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
# Units: of the drawing's width, of a label's line, of a bar and what is below it, below a group.
WIDTH, LINE, BAR, BELOW_BAR, BELOW_GROUP = 480, 17, 11, 3, 9
# What the longest bar leaves for its figure.
FIGURE_WIDTH = 76
# Kinds of bars, each a colour.
MOST_COLUMNS = 4


@dataclass(frozen=True)
class Chart:
    """Bars: a group for each row of a table, with a value for each column; None for a cell without a number."""

    columns: tuple[str, ...]
    unit: str
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]


def make_chart(marker: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Chart:
    """Make the chart that a comment asks for. Raises ValueError if the table has not its columns, or no numbers."""
    match = MARKER.fullmatch(marker.strip())
    if match is None:
        raise ValueError(f"expected `<!-- chart: COLUMN, COLUMN in UNIT -->`, found {marker.strip()[:80]}")
    columns = tuple(name.strip() for name in match[1].split(","))
    if lost := [name for name in columns if name not in heads[1:]]:
        raise ValueError(f"chart: expected columns among {', '.join(heads[1:])}; found {', '.join(lost)}")
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"chart: expected at most {MOST_COLUMNS} columns, found {len(columns)}")
    places = [heads.index(name, 1) for name in columns]
    groups = [(row[0], tuple(_read_number(row[place]) for place in places)) for row in rows]
    drawn = tuple((label, values) for label, values in groups if any(value is not None for value in values))
    if not drawn:
        raise ValueError(f"chart: expected numbers in {', '.join(columns)}, found none")
    return Chart(columns, (match[2] or "").strip(), drawn)


def _read_number(cell: str) -> float | None:
    found = NUMBER.search(cell)
    return float(found[0].replace(",", "")) if found else None


def render_chart(chart: Chart) -> Html:
    """Return a figure: what its colours mean, then the drawing."""
    longest = max(value for _, values in chart.rows for value in values if value is not None)
    parts: list[Html] = []
    y = 0.0
    for label, values in chart.rows:
        parts.append(tag("text", label, x=0, y=f"{y + LINE - 5:.1f}"))
        y += LINE
        for index, value in enumerate(values):
            if value is not None:
                parts.append(_draw_bar(value, longest, y, index, f"{label}, {chart.columns[index]}"))
                y += BAR + BELOW_BAR
        y += BELOW_GROUP
    label = f"{', '.join(chart.columns)} of {len(chart.rows)} rows; the table below has the same figures"
    drawing = tag("svg", parts, viewBox=f"0 0 {WIDTH} {y:.0f}", role="img", aria_label=label, class_="chart")
    keys = [tag("span", tag("i", class_=f"key bar-{index}"), name) for index, name in enumerate(chart.columns)]
    unit = tag("span", f"in {chart.unit}") if chart.unit else None
    return tag("figure", tag("figcaption", keys, unit), drawing)


def _draw_bar(value: float, longest: float, y: float, index: int, tip: str) -> Html:
    width = max((WIDTH - FIGURE_WIDTH) * value / longest, 1) if longest > 0 else 1
    bar = tag("rect", x=0, y=f"{y:.1f}", width=f"{width:.1f}", height=BAR, class_=f"bar bar-{index}")
    figure = tag("text", f"{value:,g}", x=f"{width + 6:.1f}", y=f"{y + BAR - 1.5:.1f}", class_="figure")
    return tag("g", tag("title", f"{tip}: {value:,g}"), bar, figure)
