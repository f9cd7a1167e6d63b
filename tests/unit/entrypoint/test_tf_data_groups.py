"""The word `tf.data` as a group's program: its hosts run tf.data.service, serve the others, and end with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import HETEROGENEOUS, TORCHRUN, JobFolder
from launch.base.errors import LaunchError
from launch.main import main
from launch.plan.request import read_request

PROGRAMS = json.dumps({"data": "tf.data"})
SERVERS = ["/opt/venv/bin/python", "-m", "dlc_runtime.dataservice.tensorflow.host"]
MULTI_WORKER = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path).config("resourceconfig", HETEROGENEOUS).code(["train.py"])
    return folder.hyperparameters(epochs=3).env(DLC_GROUP_PROGRAMS=PROGRAMS)


def host(job: JobFolder, name: str, group: str) -> JobFolder:
    return job.config("resourceconfig", {**HETEROGENEOUS, "current_host": name, "current_group_name": group})


def members(job: JobFolder) -> tuple[str, ...]:
    return read_request(job.environ).members


def test_its_hosts_run_the_service_without_the_trainings_arguments_and_the_others_the_script(job: JobFolder) -> None:
    training = job.process()
    assert training["argv"][2:] == ["train.py", "--epochs", "3"]
    data = host(job, "algo-2", "data").process()
    assert (data["argv"], data["essential"]) == (SERVERS, False)


def test_every_host_is_told_which_group_serves(job: JobFolder) -> None:
    assert job.process()["env"]["DLC_TF_DATA_GROUP"] == "data"
    assert host(job, "algo-2", "data").process()["env"]["DLC_TF_DATA_GROUP"] == "data"
    assert "DLC_TF_DATA_GROUP" not in job.env(DLC_GROUP_PROGRAMS="").process()["env"]


@pytest.mark.parametrize("parameters", [{}, MULTI_WORKER, TORCHRUN], ids=["plain", "multi-worker", "torchrun"])
@pytest.mark.parametrize("stated", [{}, {"sagemaker_distribution_instance_groups": ["dnn"]}], ids=["", "stated"])
def test_the_job_ends_when_the_hosts_that_train_have_ended(
    job: JobFolder, parameters: dict[str, Any], stated: dict[str, Any]
) -> None:
    job.hyperparameters(**parameters, **stated)
    assert sorted(members(job)) == ["algo-1", "algo-3"]
    assert sorted(members(host(job, "algo-2", "data"))) == ["algo-1", "algo-3"]


def test_the_strategy_runs_on_the_other_groups_where_none_is_stated(job: JobFolder) -> None:
    job.hyperparameters(**MULTI_WORKER)
    training = json.loads(job.process()["env"]["TF_CONFIG"])
    assert len(training["cluster"]["worker"]) == 2
    assert job.process()["env"]["SM_DISTRIBUTION_INSTANCE_GROUPS"] == '["dnn"]'
    data = host(job, "algo-2", "data").process()
    assert data["argv"] == SERVERS
    assert "TF_CONFIG" not in data["env"]


def test_a_switch_starts_a_worker_beside_the_training_that_ends_with_it(job: JobFolder) -> None:
    job.env(DLC_TF_DATA_WORKERS="all")
    script, worker = job.explain()["processes"]
    assert (script["essential"], worker["essential"], worker["argv"]) == (True, False, SERVERS)
    assert len(host(job, "algo-2", "data").explain()["processes"]) == 1


def test_the_service_below_the_group_that_trains_is_refused(job: JobFolder) -> None:
    job.hyperparameters(**MULTI_WORKER, sagemaker_distribution_instance_groups=["data", "dnn"])
    with pytest.raises(LaunchError, match=r"expected groups that train; found 'data', whose program is tf\.data"):
        job.explain()


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({"DLC_GROUP_PROGRAMS": '{"data": "tf.data", "dnn": "tf.data"}'}, "several groups with the program tf.data"),
        ({"DLC_TF_DATA_WORKERS": "some"}, "DLC_TF_DATA_WORKERS: where workers run; expected data or all; found 'some'"),
        (
            {"DLC_TF_DATA_WORKERS": "all", "DLC_GROUP_PROGRAMS": ""},
            "DLC_TF_DATA_WORKERS: no data hosts for workers to join",
        ),
    ],
)
def test_what_makes_no_service_ends_the_job_before_it_starts(
    job: JobFolder, switches: dict[str, str], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--explain"], job.env(**switches).environ) == 78
    assert expected in capfd.readouterr().err


def test_a_job_of_data_hosts_alone_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    alone = JobFolder(tmp_path).hyperparameters().env(DLC_HOSTS="a", DLC_GROUPS="data=a", DLC_RANK="0")
    assert main(["--explain"], alone.env(DLC_GROUP_PROGRAMS=PROGRAMS).environ) == 78
    assert "no host trains" in capfd.readouterr().err
