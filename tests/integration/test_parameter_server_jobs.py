"""TensorFlow parameter servers on two hosts: the workers fit shared parameters, and the servers end with the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="tensorflow")]

SCRIPTS = Path(__file__).parent / "scripts"
SERVERS = {"sagemaker_parameter_server_enabled": True}


def named(image: Image, chief: str) -> dict[str, str]:
    """What makes the first task be called so, where that is not the default of the image's TensorFlow."""
    has_estimators = tuple(map(int, image.variant.header.version.split("."))) < (2, 16)
    return {} if chief == ("master" if has_estimators else "chief") else {"DLC_TF_CHIEF": chief}


def test_workers_of_the_platform_share_the_parameters_and_all_finish(image: Image, tmp_path: Path) -> None:
    script, environment = SCRIPTS / "parameter_server.py", named(image, "master")
    with Job(image, tmp_path, script, hosts=2, hyperparameters=SERVERS, environment=environment) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        for host in job.hosts:
            fit = json.loads((job.opt_ml(host) / "output/data/fit.json").read_text())
            assert fit["values"] == pytest.approx([2, 1], abs=0.1)
            assert fit["last"] < fit["first"] / 10 or fit["first"] < 0.01
            assert "/job:ps/task:" in job.log(host)


def test_job_ends_with_the_chief_that_tensorflow_2s_workers_serve(image: Image, tmp_path: Path) -> None:
    script, environment = SCRIPTS / "parameter_server_chief.py", named(image, "chief")
    with Job(image, tmp_path, script, hosts=2, hyperparameters=SERVERS, environment=environment) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        fit = json.loads((job.opt_ml("algo-1") / "output/data/fit.json").read_text())
        assert fit["values"] == pytest.approx([2, 1], abs=0.1)
        assert "worker 0 serves" in job.log("algo-2")
