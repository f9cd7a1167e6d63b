"""The choices as one SVG file that needs nothing else and fits a telephone: bars, and charts over data hosts. Pure.

Each chart has one unit, which its title names, and axes from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10

from dlc.jobs.advice.speed import Estimate
from dlc.jobs.advice.table import cost, ms, name

WIDTH = 480  # units; a browser scales it, and its letters stay readable on 360 pixels
ROW, HEAD, EDGE = 40, 34, 12
LEFT, PLOT, BELOW = 56, 140, 44  # of a chart: its axis, its height, the room under it
MOST_LABELS, TICKS = 8, 4
BLUE, ORANGE = "#3572b0", "#d98a29"
STYLE = (
    "text{font:14px sans-serif;fill:#222}.t{font-weight:bold}.l{fill:none;stroke-width:2}.e{text-anchor:end}"
    ".m{text-anchor:middle}.g{stroke:#ddd}"
    f".a{{fill:{BLUE}}}.b{{fill:{ORANGE}}}"
)
Point = tuple[int, float]  # data hosts, and what they give


def svg(rows: Sequence[Estimate], curve: Sequence[Estimate]) -> str:
    """Bars of seconds and dollars for each row; with a curve, what each number of data hosts gives."""
    seconds = [(name(r), r.seconds * 1000, f"{ms(r.seconds)} ms each") for r in rows]
    parts, top = _bars("Seconds for 1000 steps", seconds, "a", 0)
    costs = [(name(r), r.cost or 0.0, cost(r) if r.cost is None else f"{cost(r)} USD") for r in rows]
    more, top = _bars("USD for 1000 steps", costs, "b", top)
    parts += more
    if len(curve) > 1 and (data := curve[-1].cluster.data):
        times = [(each.cluster.data_hosts, each.seconds * 1000) for each in curve]
        more, top = _chart("Milliseconds of a step", data.name, times, BLUE, top)
        parts += more
        prices = [(each.cluster.data_hosts, each.cost) for each in curve if each.cost is not None]
        if len(prices) == len(curve):
            more, top = _chart("USD for 1000 steps", data.name, prices, ORANGE, top)
            parts += more
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" style="max-width:{2 * WIDTH}px">'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>", ""])


def _bars(title: str, rows: Sequence[tuple[str, float, str]], kind: str, top: int) -> tuple[list[str], int]:
    """Each bar below its name and its figure. Returns the parts, and where they end."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    parts = [_text(EDGE, top + 24, title, "t")]
    for index, (whose, value, label) in enumerate(rows):
        y = top + HEAD + index * ROW
        length = (WIDTH - 2 * EDGE) * value / most
        parts += [_text(EDGE, y + 14, whose), _text(WIDTH - EDGE, y + 14, label, "e")]
        parts.append(f'<rect class="{kind}" x="{EDGE}" y="{y + 20}" width="{length:.1f}" height="12"/>')
    return parts, top + HEAD + len(rows) * ROW + 10


def _chart(title: str, machine: str, points: Sequence[Point], color: str, top: int) -> tuple[list[str], int]:
    """One line over the number of data hosts, with both axes. Returns the parts, and where they end."""
    base, right = top + HEAD + PLOT, WIDTH - 2 * EDGE
    ticks = axis(max(value for _, value in points))
    xs = [LEFT + (right - LEFT) * index / (len(points) - 1) for index in range(len(points))]
    ys = [base - PLOT * value / ticks[-1] for _, value in points]
    parts = [_text(EDGE, top + 24, title, "t")]
    for tick in ticks:
        y = base - PLOT * tick / ticks[-1]
        parts += [f'<path class="g" d="M{LEFT} {y:.1f}H{right}"/>', _text(LEFT - 6, y + 5, f"{tick:g}", "e")]
    every = (len(points) - 1) // MOST_LABELS + 1
    parts += [_text(x, base + 18, str(count), "m") for x, (count, _) in list(zip(xs, points, strict=True))[::every]]
    parts.append(_text((LEFT + right) / 2, base + 36, f"data hosts ({machine})", "m"))
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in zip(xs, ys, strict=True)]
    return [*parts, f'<path class="l" stroke="{color}" d="M{line}"/>', *dots], base + BELOW


def axis(most: float) -> list[float]:
    """Round figures from 0 to `most` or a little more, at the same distance."""
    rough = most / TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    count = next(count for count in range(1, 2 * TICKS) if step * count >= most * (1 - 1e-9))
    return [step * index for index in range(count + 1)]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>'
