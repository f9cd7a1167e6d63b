"""Jobs whose data hosts or training hosts go away, for a while or for ever, or reach each other badly."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from harness.engine import HANG_BOUND, docker
from harness.images import Image
from harness.job import SHORT_HEARTBEAT, Job

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = {"sagemaker_torch_distributed_enabled": True, "sagemaker_distribution_instance_groups": ["dnn"]}
SAMPLES, ELASTIC_SAMPLES, ELASTIC_BATCH = 4000, 6000, 10
STEP = re.compile(r"step (\d+) world (\d+)")
LOSES = ("-p", "tcp", "-m", "statistic", "--mode", "random", "--probability", "0.05", "-j", "DROP")


def job(image: Image, folder: Path, groups: dict[str, int], **arguments: object) -> Job:
    parameters = {**TORCHRUN, "loader": "{}", **arguments}
    environment = {"DLC_STOP_GRACE": "5", **SHORT_HEARTBEAT}
    return Job(
        image, folder, SCRIPTS / "data_hosts.py", groups=groups, hyperparameters=parameters, environment=environment,
        pods=True,
    )  # fmt: skip


def assert_each_sample_once(running: Job) -> None:
    ranks = running.metrics()
    for epoch in range(2):
        assert sorted(number for rank in ranks for number in rank["epochs"][epoch]) == list(range(SAMPLES))


def test_of_three_data_hosts_two_may_die_one_after_the_other(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, {"data": 3, "dnn": 1}, pause=0.003, hold=1) as running:
        for lost in ("algo-1", "algo-2"):
            running.wait_for_line("ten batches are here", "algo-4")
            running.kill(lost)
            running.wait_for_line(f"the job goes on without {lost}", "algo-4")
        running.let_go_on("algo-4")
        assert running.wait() == {"algo-1": 137, "algo-2": 137, "algo-3": 0, "algo-4": 0}
        assert_each_sample_once(running)
        assert "what it served is up to algo-3" in running.log("algo-4")


def test_lost_packets_cost_no_sample(image: Image, tmp_path: Path) -> None:
    """One of 20, on each side."""
    with job(image, tmp_path, {"data": 2, "dnn": 1}, pause=0.0005, hold=1) as running:
        running.wait_for_line("ten batches are here", "algo-3")
        for host in running.hosts:
            running.firewall(host, "-A", "INPUT", *LOSES)
        running.let_go_on("algo-3")
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)


def test_a_full_shared_memory_costs_no_sample(image: Image, tmp_path: Path) -> None:
    """Workers that are started again find it full, too."""
    with job(image, tmp_path, {"data": 2, "dnn": 1}, pause=0.001, hold=1) as running:
        running.wait_for_line("ten batches are here", "algo-3")
        for host in running.hosts:
            running.in_mounts(host, "mount", "-o", "remount,size=4k", "/dev/shm")
            assert "No space left" in running.ask(host, "sh", "-c", "head -c 1M /dev/zero 2>&1 >/dev/shm/full || true")
        for host in ("algo-1", "algo-2"):
            running.ask(host, "sh", "-c", "pkill --signal KILL --newest --full [d]ata_hosts.py")
        running.let_go_on("algo-3")
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)


def wait_for_world(running: Job, first: str, size: int, after: int) -> int:
    """Until the job trains on so many hosts, later than step `after`; the step."""
    deadline = time.monotonic() + HANG_BOUND
    while time.monotonic() < deadline:
        reached = [int(step) for step, world in STEP.findall(running.log(first)) if int(world) == size]
        if reached and reached[-1] > after:
            return reached[-1]
        assert running.is_running(first), running.log(first)
        time.sleep(0.5)
    pytest.fail(f"no step on {size} host(s) after step {after}")


@pytest.mark.timeout(6 * HANG_BOUND)
@pytest.mark.parametrize("data", [1, 2])
def test_an_elastic_job_goes_on_when_a_data_host_and_a_training_host_come_back(
    image: Image, tmp_path: Path, data: int
) -> None:
    """Each is stopped or killed, and comes back with a new container. A lone data host is waited for."""
    training = (f"algo-{data + 1}", f"algo-{data + 2}")
    environment = {"DLC_ELASTIC": "1:2:9", **SHORT_HEARTBEAT}
    with Job(
        image, tmp_path, SCRIPTS / "elastic_batches.py", groups={"data": data, "dnn": 2}, hyperparameters=TORCHRUN,
        environment=environment,
    ) as running:  # fmt: skip
        reached = wait_for_world(running, training[0], 2, 0)
        running.kill(training[1])
        reached = wait_for_world(running, training[0], 1, reached)
        running.stop("algo-1", grace=10)
        if data > 1:
            reached = wait_for_world(running, training[0], 1, reached + 100)
        before = running.address("algo-1")
        for host in (training[1], "algo-1"):
            docker("rm", "--force", running.container(host))
        running.start(training[1])
        running.wait_for_line("algo-1 does not resolve", training[1])
        running.start("algo-1")
        assert running.address("algo-1") != before
        wait_for_world(running, training[0], 2, reached)
        assert set(running.wait(2 * HANG_BOUND).values()) == {0}
        taken = json.loads((running.opt_ml(training[0]) / "checkpoints/taken.json").read_text())["taken"]
        assert len(taken) == len(set(taken)), "a sample came twice"
        assert len(taken) >= ELASTIC_SAMPLES - ELASTIC_BATCH, "more is missing than tail='drop' leaves out"
