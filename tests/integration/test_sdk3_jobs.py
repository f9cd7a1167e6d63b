"""SageMaker's SDK 3.x starts images with its own shell script. Its drivers give way to the launcher in our images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlc.core.checkout import find_root
from harness import sdk3
from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `train` module of the SDK."""
    return sdk3.unpack_package(FOLDER / "sdk3-drivers.txt", tmp_path_factory.mktemp("sdk3"))


def sdk3_job(image: Image, folder: Path, script: Path, **options: Any) -> Job:
    """A job whose hosts are started as SDK 3.x does."""
    start: dict[str, Any] = {"entrypoint": sdk3.ENTRYPOINT, "command": sdk3.COMMAND, "environment": sdk3.ENVIRONMENT}
    return Job(image, folder, script, **start, **options)


@pytest.mark.when(python=">=3.10")  # the examples are for frameworks of today
def test_its_basic_driver_trains_the_example(image: Image, package: Path, tmp_path: Path) -> None:
    job = sdk3_job(image, tmp_path, find_root() / "examples" / image.framework / "train.py")
    sdk3.prepare(job, package, "train.py", {"epochs": "3"})
    with job:
        assert job.wait() == {"algo-1": 0}
        assert len(list((job.opt_ml() / "model").iterdir())) == 1


def test_a_failed_script_keeps_its_exit_code_and_its_reason_is_the_jobs(
    image: Image, package: Path, tmp_path: Path
) -> None:
    job = sdk3_job(image, tmp_path, FOLDER / "scripts" / "exit_three.py")
    sdk3.prepare(job, package, "exit_three.py", {})
    with job:
        assert job.wait() == {"algo-1": 3}
        assert "ValueError: channel training holds no parquet file" in job.failure()


@pytest.mark.when(framework="pytorch")
def test_its_torchrun_driver_trains_on_two_hosts(image: Image, package: Path, tmp_path: Path) -> None:
    job = sdk3_job(image, tmp_path, find_root() / "examples/pytorch/train.py", hosts=2)
    sdk3.prepare(job, package, "train.py", {"epochs": "3"}, sdk3.TORCHRUN)
    with job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        first, second = job.metrics()
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)


@pytest.mark.when(framework="pytorch")
def test_its_torchrun_driver_trains_over_the_hosts_of_both_groups(image: Image, package: Path, tmp_path: Path) -> None:
    """`ModelTrainer(compute=Compute(instance_groups=...), distributed=Torchrun())`."""
    script = find_root() / "examples/pytorch/train.py"
    job = sdk3_job(image, tmp_path, script, groups={"large": 1, "small": 1})
    sdk3.prepare(job, package, "train.py", {"epochs": "3"}, sdk3.TORCHRUN)
    with job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}, job.log()
        first, second = job.metrics()
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)


@pytest.mark.long
@pytest.mark.when(framework="pytorch")
def test_its_torchrun_driver_gives_the_data_group_its_own_part(image: Image, package: Path, tmp_path: Path) -> None:
    """A hyperparameter names the group that is distributed: its driver alone would make ranks of all hosts."""
    job = sdk3_job(image, tmp_path, FOLDER / "scripts" / "heterogeneous.py", groups={"data": 1, "dnn": 2})
    # JSON, as the SDK sends hyperparameters.
    asked = {"sagemaker_distribution_instance_groups": '["dnn"]', "steps": "5"}
    sdk3.prepare(job, package, "heterogeneous.py", asked, sdk3.TORCHRUN)
    with job:
        assert set(job.wait().values()) == {0}, job.log()
        assert (job.opt_ml("algo-2") / "model" / "sum").read_text() == "2"
        assert "serving data" in job.log("algo-1")


@pytest.mark.when(framework="pytorch")
def test_its_mpi_starts_all_ranks_of_two_hosts_without_ssh(image: Image, package: Path, tmp_path: Path) -> None:
    """Its own driver needs keys in the image, and starts the ranks of one host on two."""
    job = sdk3_job(image, tmp_path, FOLDER / "scripts" / "mpi_sum.py", hosts=2)
    sdk3.prepare(job, package, "mpi_sum.py", {"epochs": "3"}, sdk3.mpi(2, "-x", "GREETING=two words"))
    with job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}, job.log()
        assert "network interface eth0 (this host has no ethwe)" in job.log()
        found = [(rank["rank"], rank["size"], rank["sum"], rank["host"]) for rank in job.metrics()]
        assert found == [(0, 4, 6, "algo-1"), (1, 4, 6, "algo-1"), (2, 4, 6, "algo-2"), (3, 4, 6, "algo-2")]


@pytest.mark.when(framework="tensorflow", version=">=2.12")
def test_a_hyperparameter_asks_for_what_its_classes_have_no_word_for(
    image: Image, package: Path, tmp_path: Path
) -> None:
    """Each host would train a model of its own."""
    job = sdk3_job(image, tmp_path, FOLDER / "scripts" / "multi_worker_fit.py", hosts=2)
    asked = {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"}
    sdk3.prepare(job, package, "multi_worker_fit.py", asked)
    with job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}, job.log()
        for number, host in enumerate(job.hosts):
            assert f"task {number} of 2 has trained" in job.log(host)
