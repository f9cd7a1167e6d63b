"""The HTML page of a report: a pure function of the merged report."""

from __future__ import annotations

from dlc_runtime.compiler.report.html_parts import PHASES, duration_text, escape, render_chart, render_tables
from dlc_runtime.compiler.report.page_style import COLORS, ELEMENTS
from dlc_runtime.compiler.report.summary import details

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Ranks with a chart; all of them are in the table.
MOST_CHARTS = 4
# Of each list.
MOST_TEXTS = 50
NOT_KNOWN = ("", "-", None, 0)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render_page(report: dict[str, Any]) -> str:
    """Return the page: the verdict, what to change, cards, and all the rest below."""
    found = report["headline"]
    head = (
        f"<h1>{escape(found['verdict'])}</h1>\n"
        f'<p class="advice"><b>To change:</b> {escape(found["advice"])}</p>\n<p>{escape(details(report))}</p>'
    )
    lists = (
        render_list("Warnings", "warnings", report["warnings"]),
        render_list("Notes", "notes", report["notes"]),
    )
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What was compiled</title>\n<style>{COLORS}{ELEMENTS}{STYLE}</style>\n</head>\n<body>",
            *filter(None, [head, render_tiles(report), *lists, render_charts(report), render_tables(report)]),
            f"<script>{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def render_tiles(report: dict[str, Any]) -> str:
    """Render a card for each figure that is known; seconds of a step only if they were measured in pairs."""
    steps = report["steps"]
    again = sum(entry.get("count", 1) for entry in report["recompilations"])
    lookups = report["cache_hits"] + report["cache_misses"]
    shown = (
        (f"{steps['count']:,}", "steps"),
        ((report.get("choosing") or {}).get("way"), "way of the steps, chosen by measuring"),
        *paired_tiles(report),
        (duration_text(report["compile_seconds"] or None), "compiling"),
        (steps["break_even_step"], "step from which it pays"),
        (len(report["graphs"]), "graphs"),
        (again, "compiled again"),
        (f"{report['cache_hits']} / {lookups}" if lookups else "", "found in the cache"),
    )
    known = [(value, name) for value, name in shown if value not in NOT_KNOWN]
    inner = "\n".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in known
    )
    return f'<div class="tiles">\n{inner}\n</div>'


def paired_tiles(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of the chosen way; if that is eager, of the first way that was measured beside it."""
    way = (report.get("choosing") or {}).get("way")
    measured = [entry for entry in report.get("ways", []) if entry.get("paired_seconds")]
    entry = next((each for each in measured if each["way"] == way), measured[0] if measured else None)
    if entry is None:
        return []
    other, own = map(duration_text, entry["paired_seconds"])
    name, against = entry["way"], entry["against"]
    return [
        (f"{entry['low']:.2f} to {entry['high']:.2f}\u00d7", f"as fast as {against}: {name}, with 95 % of confidence"),
        (other, f"a step, {against}, in {entry['pairs']} pairs with {name}"),
        (own, f"a step, {name}, in the same pairs"),
    ]


def render_list(title: str, kind: str, texts: list[str]) -> str:
    if not texts:
        return ""
    items = "\n".join(f"<li>{escape(text)}</li>" for text in texts[:MOST_TEXTS])
    left = f"<p>{len(texts) - MOST_TEXTS} more are in report.json.</p>" if len(texts) > MOST_TEXTS else ""
    return f'<h2>{title}</h2>\n<ul class="box {kind}">\n{items}\n</ul>{left}'


def render_charts(report: dict[str, Any]) -> str:
    found = [(rank, render_chart(rank, report)) for rank in report["ranks"]]
    drawn = [(rank, drawing) for rank, drawing in found if drawing]
    if not drawn:
        return ""
    keys = "".join(f'<span><i class="key {phase}"></i>{name}</span>' for phase, name in PHASES.items())
    figures = "\n".join(
        f"<figure><figcaption>rank {escape(rank.get('rank', 0))} on {escape(rank.get('host', ''))} {keys}</figcaption>"
        f"{drawing}</figure>"
        for rank, drawing in drawn[:MOST_CHARTS]
    )
    return f"<h2>Seconds per step</h2>\n{figures}"


STYLE = """
body { padding: 24px; max-width: 1120px; }
h1 { font-size: 21px; }
.advice { color: var(--text); font-size: 16px; }
h2 { font-size: 17px; margin: 32px 0 4px; }
p { margin: 0 0 8px; color: var(--faint); overflow-wrap: anywhere; }
.box { padding-left: 32px; }
.warnings { background: var(--note-band); }
li { overflow-wrap: anywhere; }
svg { max-width: 960px; }
.grid, .lane { stroke: var(--line); }
.tick { fill: var(--faint); font-size: 10px; dominant-baseline: middle; }
.step { fill: none; stroke-width: 3; stroke-linecap: round; }
.stem { stroke: var(--orange); opacity: 0.6; }
.step.eager { stroke: var(--gray); } .step.warm_up { stroke: var(--orange); } .step.after { stroke: var(--blue); }
.mark { fill: var(--blue); stroke: var(--page); stroke-width: 1.5; }
.mark.recompilations { fill: var(--orange); } .mark.gave_up { fill: var(--bad); }
figcaption { display: flex; flex-wrap: wrap; gap: 0 14px; }
.key { display: inline-block; width: 18px; height: 3px; margin: 0 5px 4px 0; vertical-align: middle; }
.key.eager { background: var(--gray); } .key.warm_up { background: var(--orange); }
.key.after { background: var(--blue); }
th, td { max-width: 220px; }
thead { white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--blue); }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
.count { color: var(--faint); font-weight: 400; }
@media (max-width: 720px) {
  body { padding: 12px; }
  .tick { font-size: 19px; }
  table, thead, tbody, tr, td { display: block; }
  thead tr { display: flex; flex-wrap: wrap; }
  tr { border-bottom: 1px solid var(--line); padding: 4px 0; }
  tbody tr:last-child { border: 0; }
  th, td, .number { border: 0; padding: 2px 10px; max-width: none; text-align: left; }
  td::before { content: attr(data-title) ": "; color: var(--faint); }
  td.empty { display: none; }
}
"""

SCRIPT = """
document.querySelectorAll("tbody td").forEach(function (cell) {
  var heads = cell.closest("table").tHead.rows[0].cells;
  cell.setAttribute("data-title", heads[cell.cellIndex].textContent);
});
document.querySelectorAll("th button").forEach(function (button) {
  button.addEventListener("click", function () {
    var head = button.parentElement, body = head.closest("table").tBodies[0];
    var column = head.cellIndex;
    var up = head.getAttribute("aria-sort") !== "ascending";
    function key(row) {
      var cell = row.cells[column];
      return cell.hasAttribute("data-value") ? parseFloat(cell.getAttribute("data-value")) : cell.textContent;
    }
    function compare(a, b) {
      var x = key(a), y = key(b);
      return (typeof x === "number" ? x - y : x.localeCompare(y)) * (up ? 1 : -1);
    }
    Array.from(body.rows).sort(compare).forEach(function (row) { body.appendChild(row); });
    head.parentElement.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  });
});
"""
