"""The page of a report in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import merge_records
from harness.rank_report import rank_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_click_sorts_a_table_by_number(tmp_path: Path) -> None:
    click = "document.querySelectorAll('section:nth-of-type(4) th button')[2].click()"
    text = render_page(merge_records([rank_report()]), "").replace("</body>", f"<script>{click}</script></body>")
    (tmp_path / "page.html").write_text(text)
    command = [CHROMIUM, "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'user'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert re.findall(r"<td[^>]*>(M\d+)</td>", done.stdout) == ["M9", "M20", "M100"]
    assert 'aria-sort="ascending"' in done.stdout
