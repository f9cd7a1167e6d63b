"""The page: a pure function of the merged report."""

from __future__ import annotations

from dlc_runtime.compiler.report.style import SCRIPT, STYLE
from dlc_runtime.compiler.report.tables import PHASES, chart, escape, seconds, tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_CHARTS = 4  # ranks; all of them are in the table
MOST_WARNINGS = 50
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(report: dict[str, Any], paragraph: str) -> str:
    """`paragraph`: what the log says at the end of the job."""
    parts = [f"<h1>What was compiled</h1>\n<p>{escape(paragraph)}</p>", tiles(report), warnings(report)]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What was compiled</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            *filter(None, [*parts, charts(report), tables(report)]),
            f"<script>{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def tiles(report: dict[str, Any]) -> str:
    steps = report["steps"]
    again = sum(entry.get("count", 1) for entry in report["recompilations"])
    way = (report.get("choosing") or {}).get("way") or "-"
    shown = (
        (way, "way of the steps, chosen by measuring"),
        (interval(report, way), "as fast as eager, with 95 % of confidence"),
        (seconds(steps["eager"]["median_seconds"]), "a step, eager"),
        (seconds(steps["after"]["median_seconds"]), "a step, compiled"),
        (seconds(report["compile_seconds"]), "compiling"),
        (str(steps["break_even_step"] or "-"), "step from which it pays"),
        (str(len(report["graphs"])), "graphs"),
        (str(again), "compiled again"),
        (f"{report['cache_hits']} / {report['cache_hits'] + report['cache_misses']}", "found in the cache"),
    )
    inner = "\n".join(f'<div class="tile"><b>{escape(value)}</b><span>{name}</span></div>' for value, name in shown)
    return f'<div class="tiles">\n{inner}\n</div>'


def interval(report: dict[str, Any], way: str) -> str:
    """How many times as fast the chosen way is, "-" where it was not compared with eager."""
    for entry in report.get("ways", []):
        if entry["way"] == way and entry["low"] is not None and entry["against"] == "eager":
            return f"{entry['low']:.2f} to {entry['high']:.2f}\u00d7"
    return "-"


def warnings(report: dict[str, Any]) -> str:
    texts = [*report["warnings"], *report["notes"]]
    if not texts:
        return ""
    items = "\n".join(f"<li>{escape(text)}</li>" for text in texts[:MOST_WARNINGS])
    left = f"<p>{len(texts) - MOST_WARNINGS} more are in report.json.</p>" if len(texts) > MOST_WARNINGS else ""
    return f'<h2>Warnings</h2>\n<ul class="warnings">\n{items}\n</ul>{left}'


def charts(report: dict[str, Any]) -> str:
    found = [(rank, chart(rank, report)) for rank in report["ranks"]]
    drawn = [(rank, drawing) for rank, drawing in found if drawing]
    if not drawn:
        return ""
    keys = "".join(f'<span class="key {phase}"></span>{name}' for phase, name in PHASES.items())
    figures = "\n".join(
        f"<figure><figcaption>rank {escape(rank.get('rank', 0))} on {escape(rank.get('host', ''))}{keys}</figcaption>"
        f"{drawing}</figure>"
        for rank, drawing in drawn[:MOST_CHARTS]
    )
    return f"<h2>Seconds per step</h2>\n{figures}"
