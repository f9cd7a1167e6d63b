"""Hosts of one job as containers: they meet first, end together, and an elastic job bears that hosts leave and come."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from harness.engine import HANG_BOUND, docker
from harness.images import Image
from harness.job import SHORT_HEARTBEAT, Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
STEP = re.compile(r"step (\d+) world (\d+) loss ([0-9.]+)")


def test_three_quick_hosts_that_start_one_after_the_other_all_succeed(image: Image, tmp_path: Path) -> None:
    late = ("algo-2", "algo-3")
    with Job(image, tmp_path, SCRIPTS / "one_second.py", hosts=3, late=late) as job:
        job.wait_for_line("waiting for algo-2, algo-3")
        for host in late:
            job.start(host)
            time.sleep(3)
        assert set(job.wait().values()) == {0}


def test_a_plain_job_of_two_hosts_ends_on_both_when_one_fails(image: Image, tmp_path: Path) -> None:
    script = tmp_path / "second_fails.py"
    script.write_text(
        "import os, time\nif os.environ['SM_CURRENT_HOST'] == 'algo-2': raise SystemExit(3)\ntime.sleep(600)"
    )
    with Job(image, tmp_path, script, hosts=2) as job:
        assert set(job.wait().values()) == {3}


def test_a_leader_that_cannot_read_its_job_is_no_reason_to_wait(image: Image, tmp_path: Path) -> None:
    job = Job(image, tmp_path, SCRIPTS / "one_second.py", hosts=2, late=("algo-1",))
    (job.opt_ml("algo-1") / "input/config/hyperparameters.json").write_text("{")
    with job:
        job.wait_for_line("waiting for algo-1", "algo-2")  # the leader stays for 20 s to tell why it fails
        job.start("algo-1")
        assert set(job.wait().values()) == {65}
        assert "hyperparameters.json" in job.failure("algo-2")


@pytest.mark.parametrize("victim", ["algo-1", "algo-2"], ids=["the leader", "a member"])
def test_a_container_that_is_killed_in_its_pod_is_noticed_long_before_the_heartbeat(
    image: Image, tmp_path: Path, victim: str
) -> None:
    script = tmp_path / "works.py"
    script.write_text("import time\nprint('works', flush=True)\ntime.sleep(600)")
    environment = {"DLC_HEARTBEAT_TIMEOUT": "600"}
    with Job(image, tmp_path, script, hosts=2, pods=True, environment=environment) as job:
        for host in job.hosts:
            job.wait_for_line("works", host)
        job.kill(victim)
        codes = job.wait()
        assert codes == {host: 137 if host == victim else 69 for host in job.hosts}
        (other,) = (host for host in job.hosts if host != victim)
        assert victim in job.failure(other)
        assert "its launcher is gone" in job.failure(other)


def steps(job: Job) -> list[tuple[int, int, float]]:
    """(step, hosts, loss) as the first host told them."""
    return [(int(found[1]), int(found[2]), float(found[3])) for found in STEP.finditer(job.log("algo-1"))]


def wait_for_world(job: Job, size: int, after: int) -> int:
    """Until the job trains on so many hosts, later than step `after`; the step."""
    deadline = time.monotonic() + HANG_BOUND
    while time.monotonic() < deadline:
        reached = [step for step, world, _ in steps(job) if world == size and step > after]
        if reached:
            return reached[-1]
        if not job.is_running("algo-1"):
            break
        time.sleep(0.5)
    pytest.fail(f"no step on {size} host(s) after step {after}")


@pytest.mark.timeout(5 * HANG_BOUND)  # three worlds and the end
def test_an_elastic_job_goes_on_while_a_host_dies_and_comes_back(image: Image, tmp_path: Path) -> None:
    environment = {"DLC_ELASTIC": "1:2:9", **SHORT_HEARTBEAT}
    script = SCRIPTS / "elastic_fit.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters=TORCHRUN, environment=environment) as job:
        reached = wait_for_world(job, 2, 0)
        job.kill("algo-2")
        reached = wait_for_world(job, 1, reached)
        docker("rm", "--force", job.container("algo-2"))
        job.start("algo-2")
        reached = wait_for_world(job, 2, reached)
        job.opt_ml("algo-1").joinpath("checkpoints/enough").touch()
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        told = steps(job)
        assert told[-1][0] >= reached
        assert all(later <= earlier for (_, _, earlier), (_, _, later) in pairwise(told)), "the loss went on"
        assert [step for step, _, _ in told].count(1) == 1, "nothing began anew"
