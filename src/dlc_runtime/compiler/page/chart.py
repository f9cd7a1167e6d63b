"""A chart of one rank: seconds of each step, and above it a line for each kind of compilation."""

from __future__ import annotations

import math

from dlc_runtime.compiler.page.words import attribute, escape, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WIDTH, HEIGHT = 960, 310
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 84, 34
LANES = (("graphs", "compiled"), ("recompilations", "compiled again"), ("gave_up", "gave up"))
SHORT = {"graphs": "compiled", "recompilations": "again", "gave_up": "gave up"}
LANE = 20  # pixels
PHASES = {"eager": "eager", "warm_up": "while compiling", "after": "compiled"}
MOST_MARKS = 200  # of a lane
NARROWEST = 4  # pixels of a stretch


class Axes:
    """From steps and seconds to pixels; seconds on a logarithmic scale: compiling takes a thousand steps' time."""

    def __init__(self, timeline: list[dict[str, Any]], last_step: int) -> None:
        values = [entry["seconds"] for entry in timeline] + [entry["longest"] for entry in timeline]
        positive = [value for value in values if value > 0] or [1.0]
        self.low = math.floor(math.log10(min(positive)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(positive))))
        self.last = max(last_step, 1)

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(step, 1), self.last + 1) - 1) / self.last

    def y(self, value: float) -> float:
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def chart(rank: dict[str, Any], report: dict[str, Any]) -> str:
    """`rank`: one entry of the report's ranks. "" where no step was measured."""
    timeline = rank["steps"].get("timeline") or []
    if not timeline:
        return ""
    axes = Axes(timeline, rank["steps"]["count"])
    number = rank.get("rank", 0)
    label = f"Seconds per step of rank {number}, {axes.last} steps, and when something was compiled"
    parts = [*grid(axes), *(stretch(entry, axes) for entry in timeline), *lanes(number, report, axes)]
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{attribute(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def grid(axes: Axes) -> list[str]:
    """Lines at each power of ten, and five steps."""
    parts = []
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(tick(LEFT - 8, y + 4, seconds(10.0**power), "end"))
    count = min(5, axes.last)
    for step in sorted({1 + round(index * (axes.last - 1) / max(count - 1, 1)) for index in range(count)}):
        anchor = "start" if step == 1 else "end" if step == axes.last else "middle"
        parts.append(tick(axes.x(step), HEIGHT - 14, str(step), anchor))
    return [*parts, tick(LEFT - 8, HEIGHT - 14, "step", "end")]


def tick(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def stretch(entry: dict[str, Any], axes: Axes) -> str:
    """A line at the mean, and one up to the longest step; below steps that compiled a stem, since they are few."""
    first, last = axes.x(entry["step"]), axes.x(entry["step"] + entry["steps"])
    y, top, middle = axes.y(entry["seconds"]), axes.y(entry["longest"]), (first + last) / 2
    path = f"M{first:.1f} {y:.1f}H{max(last, first + NARROWEST):.1f}"
    if y - top > 1:
        path += f"M{middle:.1f} {y:.1f}V{top:.1f}"
    stem = f'<path class="stem" d="M{middle:.1f} {HEIGHT - BOTTOM}V{y:.1f}"/>' if entry["phase"] == "warm_up" else ""
    title = f"<title>{escape(said(entry))}</title>"
    return f'{stem}<path class="step {attribute(entry["phase"])}" d="{path}">{title}</path>'


def said(entry: dict[str, Any]) -> str:
    phase, each = PHASES.get(entry["phase"], entry["phase"]), seconds(entry["seconds"])
    if entry["steps"] == 1:
        return f"step {entry['step']}, {phase}: {each}"
    last = entry["step"] + entry["steps"] - 1
    return f"steps {entry['step']} to {last}, {phase}: {each} each, longest {seconds(entry['longest'])}"


def lanes(rank: int, report: dict[str, Any], axes: Axes) -> list[str]:
    parts = []
    for index, (name, title) in enumerate(LANES):
        y = 16 + index * LANE
        parts.append(f'<line class="lane" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(tick(LEFT - 8, y + 4, SHORT[name], "end"))
        entries = [entry for entry in report.get(name, []) if rank in entry.get("ranks", [])]
        parts += [mark(name, entry, title, axes, y) for entry in entries[:MOST_MARKS]]
    return parts


def mark(name: str, entry: dict[str, Any], title: str, axes: Axes, y: int) -> str:
    words = f"step {entry.get('step', '?')}: {entry.get('function', '')} {title}"
    if entry.get("seconds"):
        words += f" in {seconds(entry['seconds'] + entry.get('backward_seconds', 0.0))}"
    if entry.get("cause"):
        words += f": {entry['cause']}"
    x = axes.x(entry.get("step") or 1)
    return f'<circle class="mark {name}" cx="{x:.1f}" cy="{y}" r="5"><title>{escape(words)}</title></circle>'
