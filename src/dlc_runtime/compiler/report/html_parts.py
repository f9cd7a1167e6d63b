"""The tables and the chart of the page: what each shows of the report, and its HTML."""

from __future__ import annotations

import html
import math
from typing import Any, Callable, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_ROWS = 500
NUMBER = ' class="number"'
# Texts of cells that say nothing.
EMPTY = ("", "-")

Entry = dict[str, Any]


class Column(NamedTuple):
    title: str
    text: Callable[[Entry], str]
    # Sorts by it; it is a number then.
    value: Callable[[Entry], float] | None = None


class Table(NamedTuple):
    title: str
    part: str  # of the report
    about: str  # one sentence
    columns: tuple[Column, ...]


def location_text(entry: Entry) -> str:
    return f"{entry['file']}:{entry['line']}" if entry.get("file") else ""


def text_column(title: str, key: str) -> Column:
    return Column(title, lambda entry: str(entry.get(key, "")))


def number_column(title: str, key: str) -> Column:
    return Column(title, lambda entry: f"{int(entry.get(key) or 0):,}", lambda entry: float(entry.get(key) or 0))


def seconds_column(title: str, key: str) -> Column:
    return Column(title, lambda entry: duration_text(entry.get(key)), lambda entry: float(entry.get(key) or 0.0))


def ranks_text(entry: Entry) -> str:
    return ", ".join(str(rank) for rank in entry.get("ranks", []))


def phase_column(title: str, phase: str) -> Column:
    def value(entry: Entry) -> float | None:
        found: float | None = entry["steps"][phase]["median_seconds"]
        return found

    return Column(title, lambda entry: duration_text(value(entry)), lambda entry: value(entry) or 0.0)


FUNCTION, PLACE, STEP = (
    text_column("function", "function"),
    Column("where", location_text),
    number_column("step", "step"),
)
CAUSE, REMEDY, REASON = text_column("cause", "cause"), text_column("remedy", "remedy"), text_column("reason", "reason")
RANKS, TIMES = Column("ranks", ranks_text), number_column("times", "count")


def paired_column(title: str, index: int) -> Column:
    """Return a column of the seconds of a step in pairs: 0 of the way that an entry was compared with, 1 its own."""

    def value(entry: Entry) -> float | None:
        found: list[float] | None = entry.get("paired_seconds")
        return found[index] if found else None

    return Column(title, lambda entry: duration_text(value(entry)), lambda entry: value(entry) or 0.0)


def mebibytes(entry: Entry) -> str:
    size = entry.get("memory_bytes")
    return f"{size / 2**20:,.0f} MiB" if size else "-"


TABLES = (
    Table(
        "Ways",
        "ways",
        "What the steps were tried with, and why it was taken or left. Seconds are those of blocks that took turns.",
        (
            text_column("function", "function"),
            text_column("way", "way"),
            text_column("outcome", "outcome"),
            number_column("steps", "steps"),
            paired_column("a step", 1),
            text_column("verdict", "verdict"),
            text_column("beside", "against"),
            paired_column("a step of that", 0),
            seconds_column("compiling", "compile_seconds"),
            Column("peak memory", mebibytes, lambda entry: float(entry.get("memory_bytes") or 0)),
        ),
    ),
    Table(
        "Compared with eager",
        "comparisons",
        "How what each way computes was compared with eager, before a step was trained with it.",
        (text_column("function", "function"), text_column("way", "way"), text_column("results", "compared")),
    ),
    Table(
        "Compiled again",
        "recompilations",
        "Each of these stopped the training while it compiled. The remedy avoids it.",
        (FUNCTION, PLACE, CAUSE, REMEDY, STEP, TIMES, seconds_column("seconds", "seconds"), RANKS),
    ),
    Table(
        "Given up",
        "gave_up",
        "Compiled again too often: what is not compiled yet runs eager from then on.",
        (FUNCTION, PLACE, CAUSE, REMEDY, STEP, RANKS),
    ),
    Table(
        "Not compiled",
        "eager",
        "Modules that stay as they are.",
        (text_column("module", "module"), REASON, REMEDY, RANKS),
    ),
    Table(
        "Did not compile",
        "fallbacks",
        "The compiler failed here, and the function runs eager.",
        (FUNCTION, PLACE, text_column("error", "type"), REASON, STEP, RANKS),
    ),
    Table(
        "Graph breaks",
        "graph_breaks",
        "Lines where a graph ends and Python takes over.",
        (PLACE, REASON, TIMES, RANKS),
    ),
    Table(
        "Graphs",
        "graphs",
        "What was compiled.",
        (
            FUNCTION,
            PLACE,
            STEP,
            seconds_column("forward", "seconds"),
            seconds_column("backward", "backward_seconds"),
            number_column("operations", "operations"),
            RANKS,
        ),
    ),
    Table(
        "Modules",
        "modules",
        "What was given to the compiler.",
        (text_column("module", "module"), PLACE, number_column("parameters", "parameters"), RANKS),
    ),
    Table(
        "Ranks",
        "ranks",
        "The processes of the job. One that is still running here was killed, or wrote this report before its end.",
        (
            number_column("rank", "rank"),
            text_column("host", "host"),
            text_column("state", "state"),
            text_column("framework", "framework"),
            text_column("device", "device"),
            Column("steps", lambda entry: str(entry["steps"]["count"]), lambda entry: float(entry["steps"]["count"])),
        ),
    ),
)
# Of ranks whose steps did not take turns: beside figures of pairs these would contradict them.
UNPAIRED = (phase_column("eager", "eager"), phase_column("compiled", "after"))


def render_tables(report: dict[str, Any]) -> str:
    """Render the tables that have rows."""
    parts = {**report, "comparisons": list_comparisons(report)}
    *tables, ranks = TABLES
    if not (report.get("choosing") or {}).get("words"):
        ranks = ranks._replace(columns=ranks.columns + UNPAIRED)
    return "\n".join(render_table(shown, parts[shown.part]) for shown in (*tables, ranks) if parts.get(shown.part))


def list_comparisons(report: dict[str, Any]) -> list[Entry]:
    """Return a row for each line of each way: one line is about one graph."""
    return [
        {"function": entry.get("function", ""), "way": entry["way"], "compared": line}
        for entry in report.get("ways", [])
        for line in entry["compared"].splitlines()
    ]


def render_table(table: Table, entries: list[Entry]) -> str:
    """Render a table without the columns that no row has a text for."""
    shown = table._replace(
        columns=tuple(column for column in table.columns if any(column.text(entry) not in EMPTY for entry in entries))
    )
    head = "".join(
        f'<th scope="col"{NUMBER if column.value else ""}><button type="button">{column.title}</button></th>'
        for column in shown.columns
    )
    rows = "\n".join(render_row(shown, entry) for entry in entries[:MOST_ROWS])
    left = f"<p>{len(entries) - MOST_ROWS} more are in report.json.</p>" if len(entries) > MOST_ROWS else ""
    return "\n".join(
        [
            f'<section><h2>{shown.title} <span class="count">{len(entries)}</span></h2><p>{escape(shown.about)}</p>',
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>',
            f"{rows}\n</tbody></table></div>{left}</section>",
        ]
    )


def render_row(shown: Table, entry: Entry) -> str:
    return "<tr>" + "".join(render_cell(column, entry) for column in shown.columns) + "</tr>"


def render_cell(column: Column, entry: Entry) -> str:
    text = column.text(entry)
    kinds = " ".join([*(["number"] if column.value else []), *(["empty"] if text in EMPTY else [])])
    value = f' data-value="{escape_attribute(column.value(entry))}"' if column.value else ""
    classes = f' class="{kinds}"' if kinds else ""
    return f"<td{classes}{value}>{escape(text)}</td>"


# Units: letters of 19 are 10 pixels high in a window of 390.
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 104, 14, 88, 40
LANES = (("graphs", "compiled"), ("recompilations", "compiled again"), ("gave_up", "gave up"))
SHORT = {"graphs": "compiled", "recompilations": "again", "gave_up": "gave up"}
LANE = 24
PHASES = {"eager": "eager", "warm_up": "while compiling", "after": "compiled"}
MOST_MARKS = 200  # of a lane
NARROWEST = 4  # of a stretch


class Axes:
    """From steps and seconds to units; seconds on a logarithmic scale: compiling takes a thousand steps' time."""

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


def render_chart(rank: dict[str, Any], report: dict[str, Any]) -> str:
    """Render `rank`, an entry of the report's ranks; return "" if no step was measured."""
    timeline = rank["steps"].get("timeline") or []
    if not timeline:
        return ""
    axes = Axes(timeline, rank["steps"]["count"])
    number = rank.get("rank", 0)
    label = f"Seconds per step of rank {number}, {axes.last} steps, and when something was compiled"
    parts = [
        *render_grid(axes),
        *(render_stretch(entry, axes) for entry in timeline),
        *render_lanes(number, report, axes),
    ]
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape_attribute(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def render_grid(axes: Axes) -> list[str]:
    """Draw lines at each power of ten, and at five steps."""
    parts = []
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(render_tick(LEFT - 8, y, duration_text(10.0**power), "end"))
    count = min(5, axes.last)
    for step in sorted({1 + round(index * (axes.last - 1) / max(count - 1, 1)) for index in range(count)}):
        anchor = "start" if step == 1 else "end" if step == axes.last else "middle"
        parts.append(render_tick(axes.x(step), HEIGHT - 14, str(step), anchor))
    return [*parts, render_tick(LEFT - 8, HEIGHT - 14, "step", "end")]


def render_tick(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def render_stretch(entry: dict[str, Any], axes: Axes) -> str:
    """Draw a line at the mean, another up to the longest step, and a stem below steps that compiled: they are few."""
    first, last = axes.x(entry["step"]), axes.x(entry["step"] + entry["steps"])
    y, top, middle = axes.y(entry["seconds"]), axes.y(entry["longest"]), (first + last) / 2
    path = f"M{first:.1f} {y:.1f}H{max(last, first + NARROWEST):.1f}"
    if y - top > 1:
        path += f"M{middle:.1f} {y:.1f}V{top:.1f}"
    stem = f'<path class="stem" d="M{middle:.1f} {HEIGHT - BOTTOM}V{y:.1f}"/>' if entry["phase"] == "warm_up" else ""
    title = f"<title>{escape(stretch_title(entry))}</title>"
    return f'{stem}<path class="step {escape_attribute(entry["phase"])}" d="{path}">{title}</path>'


def stretch_title(entry: dict[str, Any]) -> str:
    phase, each = PHASES.get(entry["phase"], entry["phase"]), duration_text(entry["seconds"])
    if entry["steps"] == 1:
        return f"step {entry['step']}, {phase}: {each}"
    last = entry["step"] + entry["steps"] - 1
    return f"steps {entry['step']} to {last}, {phase}: {each} each, longest {duration_text(entry['longest'])}"


def render_lanes(rank: int, report: dict[str, Any], axes: Axes) -> list[str]:
    parts = []
    for index, (name, title) in enumerate(LANES):
        y = 16 + index * LANE
        parts.append(f'<line class="lane" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(render_tick(LEFT - 8, y, SHORT[name], "end"))
        entries = [entry for entry in report.get(name, []) if rank in entry.get("ranks", [])]
        parts += [render_mark(name, entry, title, axes, y) for entry in entries[:MOST_MARKS]]
    return parts


def render_mark(name: str, entry: dict[str, Any], title: str, axes: Axes, y: int) -> str:
    words = f"step {entry.get('step', '?')}: {entry.get('function', '')} {title}"
    if entry.get("seconds"):
        words += f" in {duration_text(entry['seconds'] + entry.get('backward_seconds', 0.0))}"
    if entry.get("cause"):
        words += f": {entry['cause']}"
    x = axes.x(entry.get("step") or 1)
    return f'<circle class="mark {name}" cx="{x:.1f}" cy="{y}" r="5"><title>{escape(words)}</title></circle>'


def escape(text: object) -> str:
    return html.escape(str(text), quote=False)


def escape_attribute(text: object) -> str:
    return html.escape(str(text), quote=True)


def duration_text(value: float | None) -> str:
    if not value:
        return "-" if value is None else "0 s"
    unit, size = ("s", 1.0) if value >= 1 else ("ms", 1e-3) if value >= 1e-3 else ("\u00b5s", 1e-6)
    shown = value / size
    return f"{shown:.0f} {unit}" if shown >= 99.5 or shown == int(shown) else f"{shown:.3g} {unit}"
