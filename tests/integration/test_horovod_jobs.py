"""Horovod on two hosts with two ranks each: over gloo without any ssh, and over MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.images import Image
from harness.job import SHORT_HEARTBEAT, Job
from harness.progress import assert_progress_is_told

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).parent / "scripts"
TWO_RANKS = {"sagemaker_mpi_num_of_processes_per_host": 2}
GLOO = {"sagemaker_horovod_enabled": True}
MPI = {"sagemaker_mpi_enabled": True}


@pytest.mark.parametrize(
    "request_for", [pytest.param(GLOO, id="gloo"), pytest.param(MPI, id="mpi", marks=pytest.mark.core)]
)
def test_four_ranks_sum_right_and_learn_together(image: Image, tmp_path: Path, request_for: dict[str, object]) -> None:
    script = SCRIPTS / "horovod_fit.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters={**request_for, **TWO_RANKS}) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        # A loop of TensorFlow without `fit` is not counted yet
        if image.framework == "pytorch":
            assert_progress_is_told(job, ["algo-1"])
        ranks = job.metrics()
        assert [(rank["rank"], rank["host"]) for rank in ranks] == [
            (0, "algo-1"), (1, "algo-1"), (2, "algo-2"), (3, "algo-2"),
        ]  # fmt: skip
        for rank in ranks:
            assert (rank["size"], rank["sum"]) == (4, 0 + 1 + 2 + 3)
            assert rank["losses"][-1] < rank["losses"][0] / 100
            assert rank["weights"] == pytest.approx(ranks[0]["weights"], rel=1e-5)


@pytest.mark.core
@pytest.mark.when(framework="pytorch")
def test_a_rank_that_fails_below_mpirun_gives_the_job_its_exit_code(image: Image, tmp_path: Path) -> None:
    script = SCRIPTS / "exit_three.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters={**MPI, **TWO_RANKS}) as job:
        assert set(job.wait().values()) == {3}
        assert "channel training holds no parquet file" in job.failure("algo-1")


@pytest.mark.when(framework="pytorch")
def test_an_mpi_job_whose_leader_dies_ends_on_every_host(image: Image, tmp_path: Path) -> None:
    script = SCRIPTS / "save_on_sigterm.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters=MPI, environment=SHORT_HEARTBEAT) as job:
        job.wait_for_line("ready to be stopped", "algo-1")
        job.kill("algo-1")
        codes = job.wait()
        assert codes["algo-2"] not in (0, 137)
        assert "algo-1" in job.failure("algo-2")
