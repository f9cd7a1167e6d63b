"""Jobs below Ray: the script on the training host sends work to the data hosts, and its end is every host's."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPT = Path(__file__).parent / "scripts" / "ray_squares.py"
DATA, HEAD = ("algo-1", "algo-2"), "algo-3"
END_BOUND = 15.0  # seconds; the promise is 5, on a machine that has time for it
REFUSED = 78


def job(image: Image, folder: Path) -> Job:
    parameters = {"sagemaker_ray_enabled": True, "sagemaker_distribution_instance_groups": ["dnn"]}
    return Job(image, folder, SCRIPT, groups={"data": 2, "dnn": 1}, hyperparameters=parameters)


def test_work_runs_on_the_data_hosts_and_all_end_with_the_scripts_exit_code(image: Image, tmp_path: Path) -> None:
    if "ray" not in image.python_packages:
        pytest.skip("this image has no Ray: dlc build --set extras=[ray]")
    with job(image, tmp_path) as running:
        running.wait_for_line("the script ends", HEAD)
        ended = time.monotonic()
        codes = running.wait()
        assert time.monotonic() - ended < END_BOUND, running.report()
        assert set(codes.values()) == {3}, running.report()
        found = json.loads((running.opt_ml(HEAD) / "model/ray.json").read_text())
    assert found["squares"] == [number * number for number in range(20)]
    assert set(found["hosts"]) <= set(DATA)
    assert found["lasting"] in DATA


def test_an_image_without_ray_is_refused_on_every_host_with_the_remedy(image: Image, tmp_path: Path) -> None:
    if "ray" in image.python_packages:
        pytest.skip("this image has Ray")
    with job(image, tmp_path) as running:
        assert set(running.wait().values()) == {REFUSED}, running.report()
        for host in running.hosts:
            assert "requirements.txt" in running.failure(host), running.report()
