"""The report as a page: one file, everything in it, nothing of a script's text read as markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

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
    text = render_page(merge_records([rank_report(0), rank_report(1)]))
    found = Elements(text)
    assert found.open == []
    assert text.startswith("<!doctype html>")
    assert [attributes for _, attributes in found.seen if {"src", "href", "xlink:href"} & set(attributes)] == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert found.texts.count("Compiled without measuring whether that is faster than eager: compiling took 0.0 s.") == 1


def test_text_of_a_script_is_never_markup() -> None:
    found = Elements(render_page(merge_records([rank_report()])))
    assert found.texts.count(MARKUP) == 2  # the warning, the graph break
    assert len([tag for tag, _ in found.seen if tag == "script"]) == 1


def test_every_list_of_the_report_that_has_entries_is_a_table_and_no_other() -> None:
    text = render_page(merge_records([rank_report()]))
    titles = re.findall(r"<h2>([^<]+) <span", text)
    assert titles == ["Compiled again", "Graph breaks", "Graphs", "Modules", "Ranks"]
    assert "/opt/ml/code/train.py:12" in text
    assert "x has size 24 in dimension 1, and was compiled for 16" in text


def test_the_chart_shows_each_step_and_each_compilation_of_each_rank() -> None:
    text = render_page(merge_records([rank_report(0), rank_report(1)]))
    assert text.count("<svg ") == 2
    assert text.count('<circle class="mark graphs"') == 2 * 2
    assert text.count('<circle class="mark recompilations"') == 2
    assert "<title>step 6, while compiling: 8 s</title>" in text
    assert "<title>step 20: Net compiled again in 7.5 s: x has size 24" in text


@pytest.mark.parametrize(("window", "narrow"), [(390, True), (720, True), (721, False), (1280, False)])
def test_letters_of_the_chart_have_ten_pixels_and_it_fits_the_window(window: int, narrow: bool) -> None:
    plain, media, small = render_page(merge_records([rank_report()])).partition("@media (max-width: 720px)")
    assert media
    sizes = [int(size) for size in re.findall(r"\.tick \{[^}]*font-size: (\d+)px", small if narrow else plain)]
    padding = int(re.findall(r"body \{[^}]*padding: (\d+)px", small if narrow else plain)[0])
    width = float(re.findall(r'viewBox="0 0 (\d+) ', plain + small)[0])
    shown = min(window - 2 * padding, 1120 - 2 * padding, 960)
    assert 10 <= sizes[0] * shown / width <= 22
    assert "min-width" not in small.partition("</style>")[0]


def test_labels_of_the_chart_stay_inside_and_beside_each_other_at_their_largest() -> None:
    """A letter of a sans-serif font is at most 0.6 of its size wide on average."""
    letter = 19 * 0.6
    chart = render_page(merge_records([rank_report(count=10_000)]))
    found = re.findall(r'<text class="tick" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)</text>', chart)
    spans: dict[float, list[tuple[float, float]]] = {}
    for x, y, anchor, text in found:
        length = len(text) * letter
        start = float(x) - {"start": 0, "middle": length / 2, "end": length}[anchor]
        spans.setdefault(float(y), []).append((start, start + length))
    assert len(spans) > 5
    for line in map(sorted, spans.values()):
        assert line[0][0] >= 0
        assert line[-1][1] <= 640
        assert all(before[1] <= after[0] for before, after in pairwise(line))
    rows = sorted(spans)
    assert all(below - above >= 19 for above, below in pairwise(rows))


def test_in_a_narrow_window_each_row_of_a_table_is_a_block_that_names_its_cells() -> None:
    text = render_page(merge_records([rank_report()]))
    narrow = text.partition("@media (max-width: 720px)")[2].partition("</style>")[0]
    assert "table, thead, tbody, tr, td { display: block; }" in narrow
    assert 'td::before { content: attr(data-title) ": ";' in narrow
    assert 'cell.setAttribute("data-title", heads[cell.cellIndex].textContent)' in text
    assert text.count('<div class="wide">') >= 4


def test_a_report_without_steps_has_a_page_too() -> None:
    empty = merge_records([{"rank": 0, "pid": 1, "steps": StepTimes().as_json(), **Record().as_json()}])
    text = render_page(empty)
    assert Elements(text).open == []
    assert "<svg" not in text
    assert Elements(render_page(merge_records([]))).open == []


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
