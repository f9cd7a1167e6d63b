"""The tables of the page: what each shows of the report's lists, and their HTML."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from dlc_runtime.compiler.page.words import attribute, escape, seconds

MOST_ROWS = 500

Entry = dict[str, Any]


class Column(NamedTuple):
    title: str
    text: Callable[[Entry], str]
    value: Callable[[Entry], float] | None = None  # sorts by it; it is a number then


class Table(NamedTuple):
    title: str
    part: str  # of the report
    about: str  # one sentence
    columns: tuple[Column, ...]


def place(entry: Entry) -> str:
    return f"{entry['file']}:{entry['line']}" if entry.get("file") else ""


def plain(title: str, key: str) -> Column:
    return Column(title, lambda entry: str(entry.get(key, "")))


def count(title: str, key: str) -> Column:
    return Column(title, lambda entry: f"{int(entry.get(key) or 0):,}", lambda entry: float(entry.get(key) or 0))


def duration(title: str, key: str) -> Column:
    return Column(title, lambda entry: seconds(entry.get(key)), lambda entry: float(entry.get(key) or 0.0))


def ranks(entry: Entry) -> str:
    return ", ".join(str(rank) for rank in entry.get("ranks", []))


def of_steps(title: str, phase: str) -> Column:
    def value(entry: Entry) -> float | None:
        found: float | None = entry["steps"][phase]["median_seconds"]
        return found

    return Column(title, lambda entry: seconds(value(entry)), lambda entry: value(entry) or 0.0)


FUNCTION, PLACE, STEP = plain("function", "function"), Column("where", place), count("step", "step")
CAUSE, REMEDY, REASON = plain("cause", "cause"), plain("remedy", "remedy"), plain("reason", "reason")
RANKS, TIMES = Column("ranks", ranks), count("times", "count")

TABLES = (
    Table(
        "Compiled again",
        "recompilations",
        "Each of these stopped the training while it compiled. The remedy avoids it.",
        (FUNCTION, PLACE, CAUSE, REMEDY, STEP, TIMES, duration("seconds", "seconds"), RANKS),
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
        (plain("module", "module"), REASON, REMEDY, RANKS),
    ),
    Table(
        "Did not compile",
        "fallbacks",
        "The compiler failed here, and the function runs eager.",
        (FUNCTION, PLACE, plain("error", "type"), REASON, STEP, RANKS),
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
            duration("forward", "seconds"),
            duration("backward", "backward_seconds"),
            count("operations", "operations"),
            RANKS,
        ),
    ),
    Table(
        "Modules",
        "modules",
        "Compiled in place.",
        (plain("module", "module"), PLACE, count("parameters", "parameters"), RANKS),
    ),
    Table(
        "Ranks",
        "ranks",
        "The processes of this host. One that is `running` here was killed, or wrote this report before its end.",
        (
            count("rank", "rank"),
            plain("host", "host"),
            plain("state", "state"),
            plain("framework", "framework"),
            plain("device", "device"),
            Column("steps", lambda entry: str(entry["steps"]["count"]), lambda entry: float(entry["steps"]["count"])),
            of_steps("eager", "eager"),
            of_steps("compiled", "after"),
        ),
    ),
)


def tables(report: dict[str, Any]) -> str:
    """Those that have rows."""
    return "\n".join(table(shown, report[shown.part]) for shown in TABLES if report.get(shown.part))


def table(shown: Table, entries: list[Entry]) -> str:
    head = "".join(f'<th scope="col"><button type="button">{column.title}</button></th>' for column in shown.columns)
    rows = "\n".join(row(shown, entry) for entry in entries[:MOST_ROWS])
    left = f"<p>{len(entries) - MOST_ROWS} more are in report.json.</p>" if len(entries) > MOST_ROWS else ""
    return "\n".join(
        [
            f'<section><h2>{shown.title} <span class="count">{len(entries)}</span></h2><p>{escape(shown.about)}</p>',
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>',
            f"{rows}\n</tbody></table></div>{left}</section>",
        ]
    )


def row(shown: Table, entry: Entry) -> str:
    return "<tr>" + "".join(cell(column, entry) for column in shown.columns) + "</tr>"


def cell(column: Column, entry: Entry) -> str:
    text = escape(column.text(entry))
    if column.value is None:
        return f"<td>{text}</td>"
    return f'<td class="number" data-value="{attribute(column.value(entry))}">{text}</td>'
