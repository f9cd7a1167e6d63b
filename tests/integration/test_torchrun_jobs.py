"""torchrun over two hosts with two ranks each, and what becomes of a rank that fails below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.engine import run_once
from harness.images import Image
from harness.job import Job
from harness.progress import assert_progress_is_told

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
TWO_RANKS = {"sagemaker_mpi_num_of_processes_per_host": 2}
STORE_PORT = "7777"  # torchrun's hosts meet there, and it stays open while they train
STRANGER = find_root() / "tests/attacks/stranger.py"
ATTACK = 'timeout 30 python /stranger.py "$@" | grep -c tried'
TRIES = 100


@pytest.mark.core
def test_four_ranks_on_two_hosts_learn_together_and_agree_on_the_loss(image: Image, tmp_path: Path) -> None:
    script = find_root() / "examples/pytorch/train.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters={**TORCHRUN, **TWO_RANKS}) as job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        metrics = job.metrics()
        assert [rank["rank"] for rank in metrics] == [0, 1, 2, 3]
        assert {rank["world_size"] for rank in metrics} == {4}
        assert [rank["loss"] for rank in metrics] == [pytest.approx(metrics[0]["loss"], rel=1e-5)] * 4
        assert metrics[0]["accuracy"] >= 0.95
        assert len(list((job.opt_ml("algo-1") / "model").iterdir())) == 1
        assert not list((job.opt_ml("algo-2") / "model").glob("*")), "only rank 0 writes the model"
        assert_progress_is_told(job, ["algo-1"])


@pytest.mark.core
def test_a_failing_rank_gives_the_job_its_exit_code_and_its_last_words(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "exit_three.py", hyperparameters=TORCHRUN) as job:
        assert job.wait() == {"algo-1": 3}
        reason = job.failure()[:1024]  # what the platform shows
        assert "exited with code 3" in reason
        assert "channel training holds no parquet file" in reason


def test_lines_of_several_ranks_say_whose_they_are(image: Image, tmp_path: Path) -> None:
    script = find_root() / "examples/pytorch/train.py"
    with Job(image, tmp_path, script, hyperparameters={**TORCHRUN, **TWO_RANKS, "epochs": 1}) as job:
        assert job.wait() == {"algo-1": 0}
        lines = [line for line in job.log().splitlines() if "done: " in line]
        assert {line.partition(" ")[0] for line in lines} == {"[algo-1:0]", "[algo-1:1]"}


# Where nothing waits for gloo, PyTorch 2.13 ends most of the six by SIGABRT.
@pytest.mark.when(version=">=2.0")
def test_a_script_that_trained_well_ends_well_however_late_its_gloo_threads_are(image: Image, tmp_path: Path) -> None:
    with Job(image, tmp_path, SCRIPTS / "gloo_last_work.py") as job:
        assert job.wait() == {"algo-1": 0}
        [metrics] = job.metrics()
        assert metrics["ends"] == [0] * 6


@pytest.mark.long
def test_strangers_at_torchruns_store_neither_end_a_job_nor_fill_its_log(image: Image, tmp_path: Path) -> None:
    """They come from a container that is no host of the job, after the hosts have met."""
    script = SCRIPTS / "sum_until_told.py"
    with Job(image, tmp_path, script, hosts=2, hyperparameters={**TORCHRUN, **TWO_RANKS}) as job:
        job.wait_for_line("step 10 of rank 0")
        options = ("--network", job.network, "--volume", f"{STRANGER}:/stranger.py:ro", "--entrypoint", "sh")
        argv = ("-c", ATTACK, "sh", "garbage", job.address("algo-1"), STORE_PORT)
        attack = run_once(image.ref, *argv, options=options)
        assert int(attack.stdout) >= TRIES, attack.stderr
        for host in job.hosts:
            (job.opt_ml(host) / "input/end").touch()
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        for host in job.hosts:
            log = job.log(host)
            assert "Traceback" not in log
            assert "TCPStore" not in log
            assert not job.failure(host)
