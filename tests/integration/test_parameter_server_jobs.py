"""TensorFlow parameter servers on two hosts: both workers fit the same parameters, and the servers end with the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.framework("tensorflow")]

SCRIPT = Path(__file__).parent / "scripts" / "parameter_server.py"


@pytest.mark.parametrize("chief", ["master", "chief"])
def test_workers_share_the_parameters_and_the_servers_end(image: Image, tmp_path: Path, chief: str) -> None:
    hyperparameters = {"sagemaker_parameter_server_enabled": True}
    environment = {"DLC_TF_CHIEF": chief}
    with Job(image, tmp_path, SCRIPT, hosts=2, hyperparameters=hyperparameters, environment=environment) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}, job.report()
        for host in job.hosts:
            fit = json.loads((job.opt_ml(host) / "output/data/fit.json").read_text())
            assert fit["values"] == pytest.approx([2, 1], abs=0.1), job.report()
            assert fit["last"] < fit["first"] / 10 or fit["first"] < 0.01
            assert "/job:ps/task:" in job.log(host)
