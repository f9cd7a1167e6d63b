"""How far a job says it is."""

from __future__ import annotations

import json
import re

from harness.job import Job

LINE = re.compile(
    r"^dlc: step=(\d+)( steps_per_second=[\d.e+-]+)?( epoch=\d+)?( epoch_progress=\d+)?( progress=\d+)?", re.M
)


def assert_progress_is_told(job: Job, hosts: list[str]) -> None:
    """The hosts of the first rank, and no others, have said it at the end and written it down."""
    for host in job.hosts:
        said = LINE.findall(job.log(host))
        assert "steps are not counted" not in job.log(host)
        assert bool(said) == (host in hosts), f"{host}: {said}"
    for host in hosts:
        report = json.loads((job.opt_ml(host) / "output/data/launcher/progress.json").read_text())
        assert report["version"] == 1
        assert str(report["step"]) == LINE.findall(job.log(host))[-1][0]
