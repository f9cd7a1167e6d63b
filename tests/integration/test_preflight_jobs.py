"""`--preflight` on two hosts: they find each other and compare their view of the job, and no training starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPT = Path(__file__).parent / "scripts" / "exit_three.py"
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}


def preflight(image: Image, folder: Path) -> Job:
    """Two hosts that only check each other."""
    return Job(image, folder, SCRIPT, hosts=2, hyperparameters=TORCHRUN, command=("--preflight",))


def test_hosts_that_agree_pass_and_nothing_starts(image: Image, tmp_path: Path) -> None:
    with preflight(image, tmp_path) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        assert not any("reading the data" in job.log(host) for host in job.hosts)


def test_hosts_that_see_another_job_are_told_what_differs(image: Image, tmp_path: Path) -> None:
    job = preflight(image, tmp_path)
    config = job.opt_ml("algo-2") / "input/config/resourceconfig.json"
    seen = json.loads(config.read_text())
    seen["hosts"].append("algo-3")
    seen["instance_groups"][0]["hosts"].append("algo-3")
    config.write_text(json.dumps(seen))
    with job:
        assert 0 not in job.wait().values()
        assert "different lists of hosts: algo-1, algo-2 on algo-1, algo-1, algo-2, algo-3 on algo-2" in job.log(
            "algo-2"
        )
