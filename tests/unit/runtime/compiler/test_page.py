"""The report as a page: one file, everything in it, nothing of a script's text read as markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import merge_records
from dlc_runtime.compiler.report.record import Record
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, MOST, WARM_UP, StepTimes, Timeline
from harness.rank_report import MARKUP, rank_report


class Elements(HTMLParser):
    """Which elements there are, that each is closed, and the text of cells."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID and not self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.get_starttag_text().endswith("/>") or self.open[-1:] == [tag]:  # type: ignore[union-attr]
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_whole_and_asks_for_nothing_else() -> None:
    text = render_page(merge_records([rank_report(0), rank_report(1)]), "said in the log")
    found = Elements(text)
    assert found.open == []
    assert text.startswith("<!doctype html>")
    assert [attributes for _, attributes in found.seen if {"src", "href", "xlink:href"} & set(attributes)] == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert "said in the log" in found.texts


def test_text_of_a_script_is_never_markup() -> None:
    found = Elements(render_page(merge_records([rank_report()]), MARKUP))
    assert found.texts.count(MARKUP) == 3  # the paragraph, the warning, the graph break
    assert len([tag for tag, _ in found.seen if tag == "script"]) == 1


def test_every_list_of_the_report_that_has_entries_is_a_table_and_no_other() -> None:
    text = render_page(merge_records([rank_report()]), "")
    titles = re.findall(r"<h2>([^<]+) <span", text)
    assert titles == ["Compiled again", "Graph breaks", "Graphs", "Modules", "Ranks"]
    assert "/opt/ml/code/train.py:12" in text
    assert "x has size 24 in dimension 1, and was compiled for 16" in text


def test_the_chart_shows_each_step_and_each_compilation_of_each_rank() -> None:
    text = render_page(merge_records([rank_report(0), rank_report(1)]), "")
    assert text.count("<svg ") == 2
    assert text.count('<circle class="mark graphs"') == 2 * 2
    assert text.count('<circle class="mark recompilations"') == 2
    assert "<title>step 6, while compiling: 8 s</title>" in text
    assert "<title>step 20: Net compiled again in 7.5 s: x has size 24" in text


def test_in_a_narrow_window_the_chart_keeps_its_letters_and_tables_their_columns() -> None:
    """Both scroll: 860 of the chart's 960 units leave letters of 12 units more than 10 pixels."""
    narrow = render_page(merge_records([rank_report()]), "").partition("@media (max-width: 720px)")[2]
    assert "svg, table { min-width: 860px; }" in narrow
    assert "figure { overflow-x: auto; }" in narrow
    assert render_page(merge_records([rank_report()]), "").count('<div class="wide">') >= 4


def test_a_report_without_steps_has_a_page_too() -> None:
    empty = merge_records([{"rank": 0, "pid": 1, "steps": StepTimes().as_json(), **Record().as_json()}])
    text = render_page(empty, "nothing was compiled")
    assert Elements(text).open == []
    assert "<svg" not in text
    assert Elements(render_page(merge_records([]), "")).open == []


def test_the_timeline_of_a_long_run_is_bounded_and_keeps_every_step_and_the_longest() -> None:
    timeline = Timeline()
    for step in range(1, 100_001):
        phase = EAGER if step <= 5 else WARM_UP if step % 20_000 == 6 else AFTER
        timeline.add(step, phase, 50.0 if step == 70_000 else 1.0)
    found = timeline.as_json()
    assert len(found) <= MOST
    assert sum(stretch["steps"] for stretch in found) == 100_000
    assert [stretch["step"] for stretch in found] == sorted(stretch["step"] for stretch in found)
    assert max(stretch["longest"] for stretch in found) == 50.0
    assert found[0] == {"step": 1, "steps": 5, "phase": EAGER, "seconds": 1.0, "longest": 1.0}
    assert sum(stretch["steps"] for stretch in found if stretch["phase"] == WARM_UP) == 5


def test_a_run_whose_phase_changes_at_every_step_stays_bounded() -> None:
    timeline = Timeline()
    for step in range(1, 5001):
        timeline.add(step, (WARM_UP, AFTER)[step % 2], 1.0)
    assert len(timeline.as_json()) <= MOST
    assert sum(stretch["steps"] for stretch in timeline.as_json()) == 5000
