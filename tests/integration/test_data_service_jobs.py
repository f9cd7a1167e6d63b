"""Jobs whose data hosts make the batches of their training hosts: each sample once, whatever happens to a data host."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPT = Path(__file__).parent / "scripts" / "data_hosts.py"
DATA, TRAINING = ("algo-1", "algo-2"), ("algo-3", "algo-4")
SAMPLES = 4000
CUT_SECONDS = 15.0


def job(image: Image, folder: Path, pods: bool = False, **arguments: object) -> Job:
    """Two data hosts and two training hosts, and arguments of the script."""
    parameters = {
        **arguments,
        "sagemaker_torch_distributed_enabled": True,
        "sagemaker_distribution_instance_groups": ["dnn"],
    }
    environment = {"DLC_HEARTBEAT_TIMEOUT": "60", "DLC_STOP_GRACE": "5"}
    groups = {"data": 2, "dnn": 2}
    return Job(image, folder, SCRIPT, groups=groups, hyperparameters=parameters, environment=environment, pods=pods)


def assert_each_sample_once(running: Job) -> None:
    ranks = running.metrics()
    assert [rank["rank"] for rank in ranks] == [0, 1], running.report()
    for epoch in range(2):
        ids = [number for rank in ranks for number in rank["epochs"][epoch]]
        assert len(ids) == SAMPLES
        assert sorted(ids) == list(range(SAMPLES))
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1], "the order of both epochs is the same"


def test_every_sample_of_an_epoch_reaches_one_rank_once_and_all_hosts_end(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path) as running:
        assert set(running.wait().values()) == {0}, running.report()
        assert_each_sample_once(running)
        assert not any(running.failure(host) for host in running.hosts)


def test_a_data_host_whose_network_is_cut_for_a_while_costs_no_sample(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, pause=0.01) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        for chain in ("INPUT", "OUTPUT"):
            running.firewall(DATA[1], "-A", chain, "-j", "DROP")
        time.sleep(CUT_SECONDS)  # this is what is tested
        for chain in ("INPUT", "OUTPUT"):
            running.firewall(DATA[1], "-F", chain)
        assert set(running.wait().values()) == {0}, running.report()
        assert_each_sample_once(running)


def test_a_data_host_that_is_killed_costs_no_sample_and_the_job_ends_well(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, pods=True, pause=0.01) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        running.kill(DATA[1])
        codes = running.wait()
        assert [codes[host] for host in (DATA[0], *TRAINING)] == [0, 0, 0], running.report()
        assert_each_sample_once(running)
        assert f"the job goes on without {DATA[1]}, a data host: {DATA[1]} vanished" in running.log(TRAINING[0])
        assert not any(running.failure(host) for host in running.hosts)


def test_a_data_hosts_program_that_is_killed_costs_no_sample_and_its_host_ends_well(
    image: Image, tmp_path: Path
) -> None:
    with job(image, tmp_path, pause=0.01) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        running.ask(DATA[1], "pkill", "--signal", "KILL", "--oldest", "--full", "data_hosts.py")
        assert set(running.wait().values()) == {0}, running.report()
        assert_each_sample_once(running)
        assert "was ended by SIGKILL" in running.log(TRAINING[0])
        assert not any(running.failure(host) for host in running.hosts)


def test_an_error_in_the_preprocessing_ends_the_job_and_names_host_and_cause(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, broken=1234) as running:
        codes = running.wait()
        assert 0 not in [codes[host] for host in TRAINING], running.report()
        failures = running.failure(TRAINING[0]) + running.failure(TRAINING[1])
        assert "sample 1234 cannot be read" in failures, running.report()
        assert "algo-1" in failures or "algo-2" in failures, running.report()
