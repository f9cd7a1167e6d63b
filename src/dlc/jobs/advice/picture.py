"""The choices as one SVG file that needs nothing else: bars of speed and cost, and the curve over data hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dlc.jobs.advice.speed import Estimate
from dlc.jobs.advice.table import cost, ms

WIDTH, ROW, TOP, LEFT, BARS = 860, 26, 40, 290, 420
PLOT, MARGIN = 200, 60
BLUE, ORANGE = "#3572b0", "#d98a29"
STYLE = (
    "text{font:13px sans-serif;fill:#222}.t{font-weight:bold}.l{fill:none;stroke-width:2}"
    f".a{{fill:{BLUE}}}.b{{fill:{ORANGE}}}"
)


def svg(rows: Sequence[Estimate], curve: Sequence[Estimate]) -> str:
    """Bars of seconds and dollars for each row; with a curve, what each number of data hosts gives."""
    parts, top = _bars(
        "Seconds for 1000 steps", [(str(r.cluster), r.seconds * 1000, f"{ms(r.seconds)} ms each") for r in rows], "a", 0
    )
    costs = [(str(row.cluster), row.cost, f"{cost(row)} USD") for row in rows]
    more, top = _bars("USD for 1000 steps", [(n, value or 0.0, text) for n, value, text in costs], "b", top)
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
    for index, (name, value, label) in enumerate(rows):
        y = top + TOP + index * ROW
        length = BARS * value / most
        parts.append(_text(10, y + 14, name))
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 8}"/>')
        parts.append(_text(LEFT + length + 8, y + 14, label))
    return parts, top + TOP + len(rows) * ROW + 10


def _curves(curve: Sequence[Estimate], top: int) -> tuple[list[str], int]:
    data = curve[-1].cluster.data
    parts = [
        _text(
            10,
            top + 24,
            f"Data hosts ({data.name if data else ''}): step time (blue) and cost of a step (orange), from 0 up",
            "t",
        )
    ]
    base = top + TOP + PLOT
    parts.append(f'<path class="l" stroke="#999" d="M{MARGIN} {base}H{WIDTH - MARGIN}"/>')
    step = (WIDTH - 2 * MARGIN) / (len(curve) - 1)
    parts += _line([each.seconds for each in curve], base, step, BLUE)
    if all(each.cost is not None for each in curve):
        parts += _line([each.cost or 0.0 for each in curve], base, step, ORANGE)
    every = len(curve) // 16 + 1
    parts += [
        _text(MARGIN + i * step - 4, base + 18, str(each.cluster.data_hosts))
        for i, each in enumerate(curve)
        if i % every == 0
    ]
    return parts, base + 34


def _line(values: Sequence[float], base: int, step: float, color: str) -> list[str]:
    points = [(MARGIN + i * step, base - PLOT * value / max(values)) for i, value in enumerate(values)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return [
        f'<path class="l" stroke="{color}" d="M{path}"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points),
    ]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>'
