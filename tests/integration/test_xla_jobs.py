"""PyTorch/XLA on CPU devices: several of one host, by `_mp_fn` and by SPMD, and how far two hosts go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch", packages={"torch-xla": ">=2"})]

SCRIPTS = Path(__file__).parent / "scripts"
XLA = {"sagemaker_pytorch_xla_multi_worker_enabled": True}
DEVICES = {"sagemaker_mpi_num_of_processes_per_host": 4}


def ranks_of(job: Job, host: str) -> list[dict[str, Any]]:
    """What the devices of one host wrote, by ordinal."""
    files = job.opt_ml(host).glob("output/data/metrics-rank*.json")
    return sorted((json.loads(file.read_text()) for file in files), key=lambda metrics: int(metrics["rank"]))


def check(ranks: list[dict[str, Any]], devices: int) -> None:
    """The sum over all devices is right, the loss falls, and all end with the same weights."""
    assert [rank["rank"] for rank in ranks] == list(range(devices))
    for rank in ranks:
        assert (rank["world_size"], rank["sum"]) == (devices, sum(range(devices)))
        assert rank["losses"][-1] < rank["losses"][0] / 100
        assert rank["weights"] == ranks[0]["weights"]


def test_mp_fn_runs_once_per_device_and_the_devices_learn_together(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "xla_mp_fn.py", hyperparameters={**XLA, **DEVICES}) as job:
        assert job.wait() == {"algo-1": 0}
        check(ranks_of(job, "algo-1"), 4)


def test_a_device_that_comes_late_is_waited_for(image: Image, tmp_path: Path) -> None:
    """XLA itself ends a process whose devices are 15 seconds apart."""
    late = {"LATE_SECONDS": "6"}
    with Job(image, tmp_path, SCRIPTS / "xla_mp_fn.py", hyperparameters={**XLA, **DEVICES}, environment=late) as job:
        assert job.wait() == {"algo-1": 0}
        check(ranks_of(job, "algo-1"), 4)


def test_spmd_splits_one_program_over_all_devices(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "xla_spmd.py", hyperparameters={**XLA, **DEVICES}) as job:
        assert job.wait() == {"algo-1": 0}
        [rank] = ranks_of(job, "algo-1")
        assert rank["devices"] == 4
        assert "devices=[4,1]" in rank["sharding"]
        assert rank["losses"][-1] < rank["losses"][0] / 100
        assert rank["weights"] == pytest.approx([3.0, -2.0], abs=0.2)


def test_two_hosts_get_the_environment_of_one_job_and_the_cpu_client_makes_a_world_of_each(
    image: Image, tmp_path: Path
) -> None:
    """PJRT's CPU client knows the devices of its own process only: this is where two hosts end, without an error."""
    with Job(image, tmp_path, SCRIPTS / "xla_mp_fn.py", hosts=2, hyperparameters={**XLA, **DEVICES}) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        for number, host in enumerate(job.hosts):
            ranks = ranks_of(job, host)
            check(ranks, 4)
            assert {rank["host"] for rank in ranks} == {host}
            environment = {"RANK": str(number), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "algo-1"}
            assert [rank["environment"] for rank in ranks] == [environment] * 4
