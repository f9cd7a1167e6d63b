"""A job of two data hosts and two training hosts: only the latter are distributed, and all four end together.

Whatever ends the training (success, a machine that dies, a cut network, a stop), every container ends within its bound,
and exit codes and failure files say what happened.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.images import Image
from harness.job import SHORT_HEARTBEAT, Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPT = Path(__file__).parent / "scripts" / "heterogeneous.py"
DATA, LEADER, WORKER = ("algo-1", "algo-2"), "algo-3", "algo-4"
STOP_GRACE_SECONDS = 4
HANG_SECONDS = 300  # the platform's grace in these tests: what ends sooner ended by itself
STOPPED, KILLED, HOST_LOST = 143, 137, 69


def job(image: Image, folder: Path, environment: Mapping[str, str] | None = None, /, **hyperparameters: Any) -> Job:
    """The four hosts; the training runs for ever without `steps`."""
    grace = str(STOP_GRACE_SECONDS)
    return Job(
        image, folder, SCRIPT, groups={"data": 2, "dnn": 2},
        hyperparameters={
            "sagemaker_torch_distributed_enabled": True,
            "sagemaker_distribution_instance_groups": ["dnn"],
            **hyperparameters,
        },
        environment={"DLC_STOP_GRACE": grace, "DLC_END_GRACE": grace, **(environment or {})},
    )  # fmt: skip


def wait_until_all_work(running: Job) -> None:
    """Both groups are at what they do."""
    for host in DATA:
        running.wait_for_line("serving data", host)
    running.wait_for_line("step 3 ", LEADER)


@pytest.mark.core
def test_only_the_training_group_is_distributed_and_its_end_ends_all(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, steps=5) as running:
        assert set(running.wait().values()) == {0}
        assert (running.opt_ml(LEADER) / "model" / "sum").read_text() == "2"
        for host in DATA:
            assert "serving data" in running.log(host)
            assert "torchrun" not in running.log(host).partition("serving data")[2]
        assert not any(running.failure(host) for host in running.hosts)


def test_a_killed_leader_ends_every_host(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, SHORT_HEARTBEAT) as running:
        wait_until_all_work(running)
        running.kill(LEADER)
        codes = running.wait()
        assert codes.pop(LEADER) == KILLED
        assert set(codes.values()) == {HOST_LOST}
        for host in codes:
            assert LEADER in running.failure(host)


def test_a_worker_whose_network_is_cut_ends_every_host(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, SHORT_HEARTBEAT) as running:
        wait_until_all_work(running)
        running.cut_network(WORKER)
        codes = running.wait()
        assert 0 not in codes.values()
        for host in (*DATA, LEADER):
            assert WORKER in running.failure(host)
        assert LEADER in running.failure(WORKER)


def test_a_stop_during_training_ends_every_host_in_time(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path) as running:
        wait_until_all_work(running)
        running.stop(grace=HANG_SECONDS)
        assert set(running.wait().values()) == {STOPPED}


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, **{"ignore-sigterm": True}) as running:
        wait_until_all_work(running)
        started = time.monotonic()
        running.stop(grace=HANG_SECONDS)
        codes = running.wait()
        assert set(codes.values()) <= {STOPPED, KILLED}
        failures = [running.failure(host) for host in (LEADER, WORKER)]
        assert all(failure.startswith("stopped ") for failure in failures if failure)
        assert time.monotonic() - started < HANG_SECONDS, "the engine killed them, not their launchers"


def test_a_stop_while_hosts_are_still_missing_ends_the_others_at_once(image: Image, tmp_path: Path) -> None:
    waiting = job(image, tmp_path)
    waiting.late = (WORKER,)
    with waiting as running:
        running.wait_for_line("dlc:", LEADER)
        present = (*DATA, LEADER)
        running.stop(*present, grace=HANG_SECONDS)
        assert {running.exit_code(host) for host in present} == {STOPPED}
        assert not any("step" in running.log(host) for host in present)
