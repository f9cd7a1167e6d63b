"""MPI on two hosts: as a user without a name, as one that is not root, and with ranks that flood the log."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from harness.engine import docker
from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).parent / "scripts"
MPI = {"sagemaker_mpi_enabled": True}
TWO_RANKS = {**MPI, "sagemaker_mpi_num_of_processes_per_host": 2}
FOUR_RANKS = {**MPI, "sagemaker_mpi_num_of_processes_per_host": 4}
NAMELESS = "1000:1000"  # no entry in /etc/passwd, as under Kubernetes' runAsUser
LINE = re.compile(r"\[algo-\d:(\d+)\] (\d+) (\d+) (\d*)")


@pytest.mark.parametrize("user", [NAMELESS, "1000710000:0", "nobody"], ids=["nameless", "openshift", "nobody"])
def test_an_mpi_job_of_two_hosts_runs_as_another_user_than_root(image: Image, tmp_path: Path, user: str) -> None:
    with Job(image, tmp_path, SCRIPTS / "mpi_sum.py", hosts=2, hyperparameters=TWO_RANKS, user=user) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        ranks = job.metrics()
        assert [(rank["rank"], rank["host"]) for rank in ranks] == [
            (0, "algo-1"), (1, "algo-1"), (2, "algo-2"), (3, "algo-2"),
        ]  # fmt: skip
        assert {(rank["size"], rank["sum"]) for rank in ranks} == {(4, 0 + 1 + 2 + 3)}
        assert 0 not in {rank["uid"] for rank in ranks}


LEAVES = """
import os, time
if os.environ["SM_CURRENT_HOST"] == "algo-2": os._exit(7)
time.sleep(600)
"""


@pytest.mark.when(framework="pytorch")
def test_a_rank_that_leaves_on_another_host_than_mpiruns_is_named_on_both(image: Image, tmp_path: Path) -> None:
    (tmp_path / "leave.py").write_text(LEAVES)
    with Job(image, tmp_path, tmp_path / "leave.py", hosts=2, hyperparameters=MPI) as job:
        assert set(job.wait().values()) == {7}
        for host in job.hosts:
            assert "worker rank 1 on algo-2 exited with code 7" in job.failure(host)
        assert "failed on algo-1" not in job.failure("algo-2")


@pytest.mark.when(framework="pytorch")
def test_a_failing_rank_of_a_user_without_a_name_gives_the_job_its_exit_code(image: Image, tmp_path: Path) -> None:
    script = SCRIPTS / "exit_three.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters=TWO_RANKS, user=NAMELESS) as job:
        assert set(job.wait().values()) == {3}
        assert "channel training holds no parquet file" in job.failure("algo-1")


@pytest.mark.when(framework="pytorch", version=">=2.0")
def test_every_rank_of_a_user_without_a_name_saves_when_one_host_is_stopped(image: Image, tmp_path: Path) -> None:
    script = SCRIPTS / "save_some_steps_later.py"
    environment = {"TRAINING_JOB_NAME": "spot"}
    with Job(
        image, tmp_path, script, hosts=2, hyperparameters=TWO_RANKS, environment=environment, user=NAMELESS
    ) as job:
        job.wait_for_ranks("ready to be stopped", 4)
        job.stop("algo-2", grace=120)
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        saved = sorted(path.name for host in job.hosts for path in job.opt_ml(host).glob("checkpoints/*"))
        assert saved == [f"rank-{rank}" for rank in range(4)]


def test_eight_ranks_flooding_through_mpirun_lose_no_line_and_mix_no_lines(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "flood_lines.py", hosts=2, hyperparameters=FOUR_RANKS) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        done = docker("logs", job.container("algo-1"))
    for text, share in ((done.stdout, 20_000), (done.stderr, 10_000)):
        seen: Counter[str] = Counter()
        for line in text.split("\n"):
            if line.startswith("[algo-") and (match := LINE.fullmatch(line)):
                prefix, rank, _, rest = match.groups()
                assert prefix == rank
                assert rest.strip(rank) == ""
                seen[rank] += 1
        assert seen == {str(rank): share for rank in range(8)}
