"""A group of hosts may have an entry point of its own; what names none, or no group, ends the job before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import HETEROGENEOUS, MPI, TORCHRUN, JobFolder, training_env
from launch.base.errors import LaunchError
from launch.main import main

PROGRAMS = {"data": "serve.py", "dnn": "learn.py"}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path).config("resourceconfig", HETEROGENEOUS).code(["train.py", "serve.py", "learn.py"])


def host(job: JobFolder, name: str, group: str) -> JobFolder:
    return job.config("resourceconfig", {**HETEROGENEOUS, "current_host": name, "current_group_name": group})


def on_both(job: JobFolder) -> list[str]:
    """The script that a data host and a training host run."""
    return [host(job, *place).process()["argv"][2] for place in (("algo-2", "data"), ("algo-1", "dnn"))]


def test_a_variable_names_the_program_of_each_group(job: JobFolder) -> None:
    assert on_both(job.hyperparameters().env(DLC_GROUP_PROGRAMS=json.dumps(PROGRAMS))) == ["serve.py", "learn.py"]


@pytest.mark.parametrize("value", [PROGRAMS, json.dumps(PROGRAMS)], ids=["an object", "an object in a text"])
def test_a_hyperparameter_names_the_program_of_each_group_and_is_no_argument(job: JobFolder, value: Any) -> None:
    job.hyperparameters(sagemaker_group_programs=value, epochs=3)
    assert on_both(job) == ["serve.py", "learn.py"]
    assert job.process()["argv"][3:] == ["--epochs", "3"]
    assert training_env(job.explain())["additional_framework_parameters"] == {}


def test_groups_that_train_apart_are_warned_with_what_makes_them_one_job(job: JobFolder) -> None:
    for name, group in (("algo-1", "dnn"), ("algo-2", "data")):
        told = str(host(job.hyperparameters(**TORCHRUN), name, group).explain())
        assert f"warning: {group} trains a model of its own" in told
        assert "sagemaker_distribution_instance_groups names the groups that train together" in told
    for stated in (["dnn"], ["dnn", "data"]):
        job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=stated)
        assert "are a job each" not in str(host(job, "algo-1", "dnn").explain())


def test_a_group_that_is_not_named_runs_the_jobs_program(job: JobFolder) -> None:
    assert on_both(job.hyperparameters(sagemaker_group_programs={"data": "serve.py"})) == ["serve.py", "train.py"]


def test_with_a_program_for_every_group_the_job_needs_none(job: JobFolder) -> None:
    job.config("hyperparameters", {"sagemaker_group_programs": json.dumps(PROGRAMS)})
    assert on_both(job) == ["serve.py", "learn.py"]


def test_the_variable_comes_before_the_hyperparameter(job: JobFolder) -> None:
    job.hyperparameters(sagemaker_group_programs={"data": "nope.py"}).env(DLC_GROUP_PROGRAMS=json.dumps(PROGRAMS))
    assert on_both(job) == ["serve.py", "learn.py"]


def test_the_program_is_what_the_script_is_told_and_why_it_was_chosen_is_explained(job: JobFolder) -> None:
    data = job.hyperparameters().env(DLC_GROUP_PROGRAMS=json.dumps(PROGRAMS)).explain()
    assert (data["env"]["SM_USER_ENTRY_POINT"], data["env"]["SM_MODULE_NAME"]) == ("learn.py", "learn")
    assert {"what": "entry point learn.py", "why": "DLC_GROUP_PROGRAMS for dnn"} in data["decisions"]


def test_the_training_group_is_distributed_with_its_own_program(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["dnn"], sagemaker_group_programs=PROGRAMS)
    assert "learn.py" in job.process()["argv"]
    assert host(job, "algo-2", "data").process()["argv"][1:] == ["--", "serve.py"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            '{"dat": "serve.py"}',
            "DLC_GROUP_PROGRAMS: no such group; expected names out of ['data', 'dnn']; found 'dat'",
        ),
        ("serve.py", "DLC_GROUP_PROGRAMS: not an object"),
        ('["serve.py"]', "DLC_GROUP_PROGRAMS: not an object"),
        ('{"data": 3}', "group 'data'; expected the name of an entry point; found 3"),
        ('{"data": ""}', "group 'data'; expected the name of an entry point; found ''"),
        ('{"data": "../serve.py"}', "DLC_GROUP_PROGRAMS (data): outside the code directory"),
        ('{"data": "nope.py"}', "the file that DLC_GROUP_PROGRAMS (data) names"),
    ],
)
def test_what_cannot_be_used_ends_every_host_before_anything_starts(
    job: JobFolder, value: str, expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also the hosts of other groups: the host here is of the group dnn."""
    job.hyperparameters().env(DLC_GROUP_PROGRAMS=value)
    assert main(["--explain"], job.environ) in (66, 78)
    assert expected in capfd.readouterr().err


def test_groups_below_one_mpirun_have_one_program(job: JobFolder) -> None:
    both = {"sagemaker_distribution_instance_groups": ["data", "dnn"]}
    job.hyperparameters(**MPI, **both, sagemaker_group_programs=PROGRAMS)
    with pytest.raises(LaunchError, match="several programs below one mpirun"):
        job.explain()
    assert job.hyperparameters(**MPI, **both, sagemaker_group_programs=dict.fromkeys(PROGRAMS, "learn.py")).explain()
    one = {"sagemaker_distribution_instance_groups": ["dnn"], "sagemaker_group_programs": {"data": "serve.py"}}
    assert job.hyperparameters(**MPI, **one).explain()
