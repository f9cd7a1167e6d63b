"""The choices as one SVG file that needs nothing else: bars of speed and cost, and the curve over data hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dlc.jobs.advice.speed import Estimate
from dlc.jobs.advice.table import cost, ms, name

WIDTH, ROW, TOP, LEFT, BARS = 860, 26, 40, 290, 420
PLOT, MARGIN, MOST_LABELS = 200, 60, 14
BLUE, ORANGE = "#3572b0", "#d98a29"
STYLE = (
    "text{font:13px sans-serif;fill:#222}.t{font-weight:bold}.l{fill:none;stroke-width:2}"
    f".a{{fill:{BLUE}}}.b{{fill:{ORANGE}}}"
)


def svg(rows: Sequence[Estimate], curve: Sequence[Estimate]) -> str:
    """Bars of seconds and dollars for each row; with a curve, what each number of data hosts gives."""
    parts, top = _bars(
        "Seconds for 1000 steps", [(name(r), r.seconds * 1000, f"{ms(r.seconds)} ms each") for r in rows], "a", 0
    )
    costs = [(name(r), r.cost, cost(r) if r.cost is None else f"{cost(r)} USD") for r in rows]
    more, top = _bars("USD for 1000 steps", [(title, value or 0.0, text) for title, value, text in costs], "b", top)
    parts += more
    if len(curve) > 1:
        more, top = _curves(curve, top)
        parts += more
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}">'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>", ""])


def _bars(title: str, rows: Sequence[tuple[str, float, str]], kind: str, top: int) -> tuple[list[str], int]:
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    parts = [_text(10, top + 24, title, "t")]
    for index, (title_of, value, label) in enumerate(rows):
        y = top + TOP + index * ROW
        length = BARS * value / most
        parts.append(_text(10, y + 14, title_of))
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 8}"/>')
        parts.append(_text(LEFT + length + 8, y + 14, label))
    return parts, top + TOP + len(rows) * ROW + 10


def _curves(curve: Sequence[Estimate], top: int) -> tuple[list[str], int]:
    data = curve[-1].cluster.data
    title = f"Data hosts ({data.name if data else ''}): milliseconds of a step (blue), USD for 1000 steps (orange)"
    base = top + TOP + ROW + PLOT
    axis = f'<path class="l" stroke="#999" d="M{MARGIN} {base}H{WIDTH - MARGIN}"/>'
    step = (WIDTH - 2 * MARGIN) / (len(curve) - 1)
    every = len(curve) // MOST_LABELS + 1
    xs = [MARGIN + index * step for index in range(len(curve))]
    parts = [_text(10, top + 24, title, "t"), axis]
    parts += [_text(x - 4, base + 18, str(e.cluster.data_hosts)) for x, e in list(zip(xs, curve, strict=True))[::every]]
    # More hosts cost more for an hour: the line of costs is never below that of times, and so are its labels.
    parts += _line(xs, [(each.seconds, ms(each.seconds)) for each in curve], base, BLUE, 18, every)
    if all(each.cost is not None for each in curve):
        parts += _line(xs, [(each.cost or 0.0, cost(each)) for each in curve], base, ORANGE, -8, every)
    return parts, base + 34


def _line(
    xs: Sequence[float], values: Sequence[tuple[float, str]], base: int, color: str, below: int, every: int
) -> list[str]:
    most = max(value for value, _ in values)
    points = [(x, base - PLOT * value / most, label) for x, (value, label) in zip(xs, values, strict=True)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
    circles = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y, _ in points]
    labels = [_text(x - 10, y + below, label) for x, y, label in points[::every]]
    return [f'<path class="l" stroke="{color}" d="M{path}"/>', *circles, *labels]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>'
