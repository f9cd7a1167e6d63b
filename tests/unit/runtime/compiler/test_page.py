"""The report as a page: one file, everything in it, nothing of a script's text read as markup."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dlc_runtime.compiler.page.html import page
from dlc_runtime.compiler.report import files
from dlc_runtime.compiler.report.causes import cause_of
from dlc_runtime.compiler.report.merge import merged
from dlc_runtime.compiler.report.record import Record
from dlc_runtime.compiler.report.steps import AFTER, EAGER, WARM_UP, Steps
from dlc_runtime.compiler.report.timeline import MOST, Timeline

SOURCES = Path(__file__).parents[4] / "src"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
MARKUP = "<script>alert('x')</script> & <b>"


def rank_report(rank: int = 0, count: int = 40) -> dict[str, Any]:
    steps, record, now = Steps(), Record(), 0.0
    for step in range(1, count + 1):
        phase, took = (EAGER, 0.2) if step <= 5 else (WARM_UP, 8.0) if step in (6, 20) else (AFTER, 0.1)
        now += took
        steps.tick(phase, now)
    where = {"function": "Net", "file": "/opt/ml/code/train.py", "line": 12, "step": 6}
    record.add_graph("0/0", where, 7.5, 30)
    record.add_graph("0/1", {**where, "step": 20}, 7.5, 30)
    cause = cause_of("0/0: tensor 'x' size mismatch at index 1. expected 16, actual 24")
    record.add_recompilation({**where, "step": 20}, 7.5, cause)
    record.add_break(MARKUP, (("/opt/ml/code/train.py", 7),))
    for number in (100, 9, 20):
        record.modules.append({"module": f"M{number}", "file": "a.py", "line": 1, "parameters": number})
    record.warn(MARKUP)
    held = {"rank": rank, "pid": 100 + rank, "host": "algo-1", "state": "ended", "started": 1.0, "framework": "torch"}
    return {**held, "device": "cpu", "steps": steps.as_json(), **record.as_json()}


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
    text = page(merged([rank_report(0), rank_report(1)]), "said in the log")
    found = Elements(text)
    assert found.open == []
    assert text.startswith("<!doctype html>")
    assert [attributes for _, attributes in found.seen if {"src", "href", "xlink:href"} & set(attributes)] == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert "said in the log" in found.texts


def test_text_of_a_script_is_never_markup() -> None:
    found = Elements(page(merged([rank_report()]), MARKUP))
    assert found.texts.count(MARKUP) == 3  # the paragraph, the warning, the graph break
    assert len([tag for tag, _ in found.seen if tag == "script"]) == 1


def test_every_list_of_the_report_that_has_entries_is_a_table_and_no_other() -> None:
    text = page(merged([rank_report()]), "")
    titles = re.findall(r"<h2>([^<]+) <span", text)
    assert titles == ["Compiled again", "Graph breaks", "Graphs", "Modules", "Ranks"]
    assert "/opt/ml/code/train.py:12" in text
    assert "tensor 'x' size mismatch at index 1. expected 16, actual 24" in text


def test_the_chart_shows_each_step_and_each_compilation_of_each_rank() -> None:
    text = page(merged([rank_report(0), rank_report(1)]), "")
    assert text.count("<svg ") == 2
    assert text.count('<circle class="mark graphs"') == 2 * 2
    assert text.count('<circle class="mark recompilations"') == 2
    assert "<title>step 6, while compiling: 8 s</title>" in text
    assert "<title>step 20: Net compiled again in 7.5 s: tensor 'x' size mismatch" in text


def test_a_report_without_steps_has_a_page_too() -> None:
    empty = merged([{"rank": 0, "pid": 1, "steps": Steps().as_json(), **Record().as_json()}])
    text = page(empty, "nothing was compiled")
    assert Elements(text).open == []
    assert "<svg" not in text
    assert Elements(page(merged([]), "")).open == []


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


def test_the_page_of_a_killed_job_can_be_made_from_its_folder(tmp_path: Path) -> None:
    files.write_rank(str(tmp_path), {**rank_report(), "state": "running"})
    command = [sys.executable, "-m", "dlc_runtime.compiler.report", str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/report.html\n"), done.stderr
    assert "running" in (tmp_path / "report.html").read_text()


def test_a_folder_without_reports_is_said_to_have_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlc_runtime.compiler.report", str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{tmp_path}: expected rank-*.json, found none\n")


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_click_sorts_a_table_by_number(tmp_path: Path) -> None:
    click = "document.querySelectorAll('section:nth-of-type(4) th button')[2].click()"
    text = page(merged([rank_report()]), "").replace("</body>", f"<script>{click}</script></body>")
    (tmp_path / "page.html").write_text(text)
    command = [CHROMIUM, "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'user'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert re.findall(r"<td>(M\d+)</td>", done.stdout) == ["M9", "M20", "M100"]
    assert 'aria-sort="ascending"' in done.stdout
