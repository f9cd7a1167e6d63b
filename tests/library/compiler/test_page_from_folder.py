"""The page of a report as a program makes it from a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dlc_runtime.compiler.report import merge
from harness.rank_report import rank_report

SOURCES = Path(__file__).parents[3] / "src"


def test_the_page_of_a_killed_job_can_be_made_from_its_folder(tmp_path: Path) -> None:
    merge.write_rank(str(tmp_path), {**rank_report(), "state": "running"})
    command = [sys.executable, "-m", "dlc_runtime.compiler.report", str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/report.html\n"), done.stderr
    assert "running" in (tmp_path / "report.html").read_text()


def test_a_folder_without_reports_is_said_to_have_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlc_runtime.compiler.report", str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{tmp_path}: expected rank-*.json, found none\n")
