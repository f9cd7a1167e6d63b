"""What SDK 3's shell script exports for its drivers, read by the launcher that runs in their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import MPI, JobFolder, hosts
from launch.base.errors import LaunchError

# What `ModelTrainer(distributed=...)` comes to.
OF_MPI = {"process_count_per_node": 2, "mpi_additional_options": ["-x", "A=two words"]}
OF_TORCHRUN = {"process_count_per_node": None, "smp": None}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    """Two hosts, no hyperparameter of the platform's, and the script's name in the environment."""
    folder = JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1", "algo-2")).code(["train.py"])
    folder.config("hyperparameters", {"epochs": "3", "fast": "true"})
    return folder.env(SM_ENTRY_SCRIPT="train.py", SM_HOST_COUNT="2", SM_HOSTS="[]")


def ask(job: JobFolder, config: object) -> dict[str, Any]:
    """What `--explain` says if the SDK's driver was told this."""
    return job.env(SM_DISTRIBUTED_CONFIG=json.dumps(config)).explain()


def test_a_script_gets_its_arguments_in_the_drivers_dialect_and_the_variables_of_both(job: JobFolder) -> None:
    data = job.explain()
    assert data["strategy"] == "single"
    assert data["processes"][0]["argv"][-5:] == ["train.py", "--epochs", "3", "--fast", "true"]
    assert (data["env"].get("SM_HOSTS"), data["env"].get("SM_CURRENT_HOST")) == ('["algo-1","algo-2"]', "algo-1")
    job.env(SM_HOST_COUNT="2")
    assert "SM_HOST_COUNT" not in data["env"], "nothing is changed of what the SDK has set"


def test_mpi_starts_as_many_ranks_on_every_host_as_it_says(job: JobFolder) -> None:
    data = ask(job, OF_MPI)
    argv = data["processes"][0]["argv"]
    assert data["strategy"] == "mpi"
    assert argv[argv.index("--host") + 1 : argv.index("--host") + 4] == ["algo-1:2,algo-2:2", "-np", "4"]
    assert argv[argv.index("A=two words") - 1] == "-x"


def test_any_other_class_is_torchrun_with_one_process_for_each_gpu(job: JobFolder) -> None:
    data = ask(job.env(DLC_NUM_GPUS="8"), OF_TORCHRUN)
    assert data["strategy"] == "torchrun"
    assert "8" in " ".join(data["processes"][0]["argv"]).partition("--nproc")[2][:16]


def test_a_hyperparameter_wins_over_the_class(job: JobFolder) -> None:
    job.config("hyperparameters", {"sagemaker_mpi_num_of_processes_per_host": "5", "sagemaker_mpi_enabled": "true"})
    assert "algo-1:5,algo-2:5" in ask(job, OF_MPI)["processes"][0]["argv"]


def test_requirements_are_the_sdks_to_install(job: JobFolder) -> None:
    job.code(["requirements.txt"], "six\n")
    assert job.explain()["before"] == []


@pytest.mark.parametrize("text", ["{", "[]", '{"mpi_additional_options": [1]}', '{"mpi_additional_options": 5}'])
def test_what_no_sdk_writes_is_refused(job: JobFolder, text: str) -> None:
    with pytest.raises(LaunchError, match="SM_DISTRIBUTED_CONFIG"):
        job.env(SM_DISTRIBUTED_CONFIG=text).explain()


def test_without_the_sdks_script_its_variables_are_of_another_job(job: JobFolder) -> None:
    job.env(SM_ENTRY_SCRIPT="", SM_DISTRIBUTED_CONFIG=json.dumps(OF_MPI)).hyperparameters()
    assert job.explain()["strategy"] == "single"
    assert job.hyperparameters(**MPI).explain()["processes"][0]["argv"][0] == "mpirun"
