"""A job tells how far it is as the script's own bar does, and when it will be done; `dlc ps` shows it meanwhile."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from dlc.cli.ps import describe_progress
from dlc.places.local.known_jobs import read_progress
from harness.engine import docker
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch", version=">=2.0")]

SCRIPTS = Path(__file__).parent / "scripts"
BAR = re.compile(r"bar (\d+) of (\d+) at ([\d.]+)|dlc: step=(\d+) .* progress=(\d+)(?: eta_seconds=(\d+))?")


@pytest.mark.long
def test_lines_follow_the_scripts_own_bar_and_the_end_is_known_at_half_time(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "slow_trainer.py") as job:
        job.wait_for_line("bar 60 of 240")
        while "step" not in (told := read_progress(job.spec.folder)):
            time.sleep(1.0)
        assert re.fullmatch(r"\d+%.*", describe_progress(told))
        assert job.wait() == {"algo-1": 0}
        done = docker("logs", "--timestamps", job.container("algo-1"))
        # Both streams, in the order of their lines
        lines_in_order = "\n".join(sorted((done.stdout + done.stderr).splitlines()))
        found = [match.groups() for match in BAR.finditer(lines_in_order)]
    bars = [(int(step), float(at)) for step, _, at, *_ in found if step]
    end = bars[-1][1]
    step, at, ends_told = 0, 0.0, 0
    for own, _, seconds, told_step, progress, left in found:
        if own:
            step, at = int(own), float(seconds)
            continue
        assert abs(int(told_step) - step) <= 1
        assert int(progress) == 100 * int(told_step) // 240
        if left and step < 240:
            ends_told += 1
            assert abs(float(left) - (end - at)) <= max(0.1 * (end - at), 2.0)
    assert ends_told >= 1
    assert step == 240
