"""Hosts that stay until the run that started them is stopped: of a test's own job, and of `dlc run`.

pytest finds no test in a file of this name: test_stopped_test_runs.py runs it, and stops it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.dlc_run import DlcRun
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

STUBBORN = Path(__file__).parent / "scripts" / "ignore_stops.py"
READY = "ready to be stopped"


def test_the_hosts_of_a_job_stay(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, STUBBORN) as job:
        job.wait_for_line(READY)
        stay(tmp_path)


def test_the_hosts_of_dlc_run_stay(image: Image, tmp_path: Path) -> None:
    words = ("--hosts", "2", image.ref, str(STUBBORN))
    with DlcRun(tmp_path / "run", *words, cache=tmp_path / "cache") as run:
        run.wait_for(*(f"[algo-{number}] {READY}" for number in (1, 2)))
        stay(tmp_path)


def stay(folder: Path) -> None:
    """Say that the hosts are there, and wait for the end of the run."""
    (folder / "hosts-are-there").touch()
    while True:
        time.sleep(1)
