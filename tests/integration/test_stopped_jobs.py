"""A stop of one host of two: every rank of both saves some steps later, both end well, and nothing says success."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import CALM_OPTIONS, run_once
from harness.images import Image
from harness.job import Job
from harness.opt_ml import lay_out

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).parent / "scripts" / "save_some_steps_later.py"
TWO_RANKS = {"sagemaker_mpi_num_of_processes_per_host": 2}
TORCHRUN = {"sagemaker_torch_distributed_enabled": True, **TWO_RANKS}
MPI = {"sagemaker_mpi_enabled": True, **TWO_RANKS}
HOROVOD = {"sagemaker_horovod_enabled": True, **TWO_RANKS}
MULTI_WORKER = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}
PLATFORM, PLATFORMS_GRACE = {"TRAINING_JOB_NAME": "spot"}, 120  # SageMaker's seconds until SIGKILL


def checkpoints(job: Job) -> list[str]:
    return sorted(path.name for host in job.hosts for path in job.opt_ml(host).glob("checkpoints/*"))


def stop_one(
    image: Image, folder: Path, hyperparameters: dict[str, object], **environment: str
) -> tuple[Job, list[str]]:
    """Stop algo-2 alone, check what holds for every strategy; the checkpoints that there are then."""
    variables = {**PLATFORM, **environment}
    with Job(image, folder, SCRIPT, hosts=2, hyperparameters=hyperparameters, environment=variables) as job:
        if hyperparameters == MPI:
            job.wait_for_ranks("ready to be stopped", 4)
        else:
            for host in job.hosts:
                job.wait_for_line("ready to be stopped", host)
        job.stop("algo-2", grace=PLATFORMS_GRACE)
        code = int(environment.get("DLC_STOPPED_EXIT_CODE", "0"))
        assert job.wait() == dict.fromkeys(job.hosts, code)
        assert not [host for host in job.hosts if (job.opt_ml(host) / "output/success").exists()]
        return job, checkpoints(job)


@pytest.mark.when(framework="pytorch", version=">=2.0")
@pytest.mark.parametrize(
    ("hyperparameters", "code"),
    [
        pytest.param(TORCHRUN, "143", id="torchrun, which exit code is said"),
        pytest.param(MPI, "0", id="mpi"),
        pytest.param(HOROVOD, "0", id="horovod"),
    ],
)
def test_every_rank_saves_when_one_host_is_stopped(
    image: Image, tmp_path: Path, hyperparameters: dict[str, object], code: str
) -> None:
    job, saved = stop_one(image, tmp_path, hyperparameters, **({} if code == "0" else {"DLC_STOPPED_EXIT_CODE": code}))
    assert saved == [f"rank-{rank}" for rank in range(4)], job.hosts


@pytest.mark.when(framework="tensorflow")
def test_every_worker_saves_when_one_host_is_stopped(image: Image, tmp_path: Path) -> None:
    _, saved = stop_one(image, tmp_path, MULTI_WORKER)
    assert saved == ["rank-0", "rank-0"]


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.0")
def test_a_long_save_below_torchrun_is_not_cut_short(image: Image, tmp_path: Path) -> None:
    """torchrun itself would end the ranks after 30 s."""
    environment = {**PLATFORM, "SAVE_SECONDS": "35"}
    with Job(image, tmp_path, SCRIPT, hyperparameters=TORCHRUN, environment=environment) as job:
        job.wait_for_line("ready to be stopped")
        job.stop(grace=PLATFORMS_GRACE)
        assert job.wait() == {"algo-1": 0}
        assert checkpoints(job) == ["rank-0", "rank-1"]
        assert (job.opt_ml() / "checkpoints/rank-0").read_text() == "1", "told once"


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_a_stop_while_a_compiler_works_lets_the_script_save_and_the_next_run_compile(
    image: Image, tmp_path: Path
) -> None:
    """Half of what Inductor writes may be in its cache, which both runs share."""
    opt_ml = lay_out(tmp_path / "ml", SCRIPT.with_name("stop_while_compiling.py"), hyperparameters={})
    cache = "TORCHINDUCTOR_CACHE_DIR=/opt/ml/checkpoints/inductor"
    options = (*CALM_OPTIONS, "--volume", f"{opt_ml}:/opt/ml", "--env", cache, "--env", "DLC_TERMINATION_GRACE=120")
    said = [run_once(image.ref, options=options, seconds=300.0) for _ in range(2)]
    assert [done.returncode for done in said] == [0, 0], said
    assert "stopped while it compiles" in said[0].stdout
    assert "compiled to the end" not in said[0].stdout
    assert "compiled to the end" in said[1].stdout
    assert (opt_ml / "checkpoints/saved").exists()
