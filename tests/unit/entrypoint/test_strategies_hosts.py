"""Which strategy a job gets and which hosts take part; plain jobs and parameter servers, beyond the worked cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import (
    DATA,
    DNN,
    HETEROGENEOUS,
    HOROVOD,
    MPI,
    SERVERS,
    TORCHRUN,
    XLA,
    JobFolder,
    decisions,
    hosts,
    roles,
    training_env,
)
from launch.plan.host_plan import make_host_plan
from launch.plan.network import Network
from launch.plan.request import read_request


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1", "algo-2", current="algo-2")).code()


def test_a_plain_job_on_several_hosts_is_one_process_on_each_and_all_end_together(job: JobFolder) -> None:
    job.hyperparameters()
    assert roles(job) == [("worker", 0, True)]
    request = read_request(job.environ)
    assert request.members == request.group_hosts == request.cluster.hosts


def test_a_host_outside_of_the_stated_group_runs_the_script_and_ends_with_the_group(job: JobFolder) -> None:
    config = {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"}
    job.config("resourceconfig", config)
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["dnn"])
    assert roles(job) == [("worker", 0, True)]
    request = read_request(job.environ)
    assert request.members == ("algo-3", "algo-1")
    assert request.group_hosts == ("algo-1", "algo-2", "algo-3")
    assert "the distributed group is algo-3, algo-1" in decisions(job.explain())
    assert job.explain()["cluster"]["leader"] == "algo-3"


def test_over_an_empty_list_of_groups_nothing_is_distributed(job: JobFolder) -> None:
    job.config("resourceconfig", HETEROGENEOUS)
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=[])
    assert roles(job) == [("worker", 0, True)]
    assert json.loads(job.process()["env"]["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == []
    request = read_request(job.environ)
    assert request.members == request.group_hosts == request.cluster.hosts


def test_stated_groups_without_a_distribution_warn_that_every_host_trains_alone(job: JobFolder) -> None:
    job.config("resourceconfig", HETEROGENEOUS)
    job.hyperparameters(sagemaker_distribution_instance_groups=["dnn"])
    assert "warning: every host trains alone" in decisions(job.explain())
    job.hyperparameters(sagemaker_distribution_instance_groups=["data"])  # of one host, which the others serve
    assert "warning" not in decisions(job.explain())
    job.hyperparameters(sagemaker_distribution_instance_groups=["dnn"])
    assert "warning" not in decisions(job.env(DLC_STRATEGY="single").explain())
    assert "warning" not in decisions(job.env(DLC_STRATEGY="").hyperparameters().explain())


def test_several_hosts_without_a_distribution_warn_that_each_trains_for_itself(job: JobFolder) -> None:
    job.hyperparameters()
    assert "warning: nothing connects the 2 hosts: no distribution was asked for" in decisions(job.explain())
    assert "dlc run --distributed torchrun|horovod|mpi|tensorflow" in decisions(job.explain())
    for stated in (TORCHRUN, MPI, HOROVOD):
        assert "warning" not in decisions(job.hyperparameters(**stated).explain())
    assert "warning" not in decisions(job.hyperparameters().env(DLC_STRATEGY="single").explain())
    cluster = {"worker": ["algo-1:2222", "algo-2:2222"]}
    wired = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    assert "warning" not in decisions(job.env(DLC_STRATEGY="", TF_CONFIG=wired).explain())
    job.environ.pop("TF_CONFIG")
    assert "warning" not in decisions(job.config("resourceconfig", hosts("algo-1")).explain())


@pytest.mark.parametrize(("stated", "found"), [({"current_group_name": "dn"}, "dn"), ({}, "homogeneousCluster")])
def test_a_host_whose_group_nobody_is_in_warns_that_it_is_not_distributed(
    job: JobFolder, stated: dict[str, str], found: str
) -> None:
    config = {key: value for key, value in HETEROGENEOUS.items() if key != "current_group_name"}
    job.config("resourceconfig", {**config, **stated}).hyperparameters(**TORCHRUN)
    assert roles(job) == [("worker", 0, True)]
    said = f"warning: one plain process: current_group_name is {found}, and no instance group is called that"
    assert said in decisions(job.explain())


def test_groups_that_are_null_are_groups_that_are_not_stated(job: JobFolder) -> None:
    job.config("resourceconfig", HETEROGENEOUS)
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=None)
    request = read_request(job.environ)
    assert request.members == request.group_hosts == ("algo-3", "algo-1")


def test_without_stated_groups_each_group_is_a_job_of_its_own(job: JobFolder) -> None:
    job.config("resourceconfig", HETEROGENEOUS).hyperparameters(**TORCHRUN)
    request = read_request(job.environ)
    assert request.members == request.group_hosts == ("algo-3", "algo-1")


@pytest.mark.parametrize("strategy", [TORCHRUN, MPI, HOROVOD, XLA, SERVERS])
def test_every_strategy_is_scoped_by_the_stated_group(job: JobFolder, strategy: dict[str, Any]) -> None:
    job.config("resourceconfig", {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"})
    job.hyperparameters(**strategy, sagemaker_distribution_instance_groups=["dnn"])
    assert roles(job) == [("worker", 0, True)]


def test_parameter_servers_do_not_hold_a_host_and_their_chief_has_the_asked_for_name(job: JobFolder) -> None:
    job.hyperparameters(**SERVERS).env(DLC_TF_CHIEF="chief")
    assert roles(job) == [("ps", 1, False), ("worker", 1, True)]
    config = json.loads(job.process(1)["env"]["TF_CONFIG"])
    assert config["cluster"]["chief"] == ["algo-1:2222"]
    assert config["task"] == {"type": "worker", "index": 0}


def test_a_parameter_server_job_ends_with_its_chief_whose_workers_serve_it(job: JobFolder) -> None:
    job.hyperparameters(**SERVERS).env(DLC_TF_CHIEF="chief")
    assert read_request(job.environ).members == ("algo-1", "algo-2")
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert read_request(job.environ).members == ("algo-1",)


def test_without_estimators_the_first_task_has_the_name_that_tensorflow_2s_strategy_wants(
    job: JobFolder, tmp_path: Path
) -> None:
    packages = tmp_path / "venv/lib/python3.11/site-packages"
    for name in ("tensorflow", "tensorflow-2.16.1.dist-info"):
        (packages / name).mkdir(parents=True)
    job.hyperparameters(**SERVERS).env(DLC_VENV=str(tmp_path / "venv"))
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert json.loads(job.process(1)["env"]["TF_CONFIG"])["task"] == {"type": "chief", "index": 0}
    assert read_request(job.environ).members == ("algo-1",)
    (packages / "tensorflow-2.16.1.dist-info").rename(packages / "tensorflow-2.15.1.dist-info")
    assert json.loads(job.process(1)["env"]["TF_CONFIG"])["task"] == {"type": "master", "index": 0}


def test_a_parameter_server_job_of_the_platform_ends_when_every_worker_has_trained(job: JobFolder) -> None:
    job.hyperparameters(**SERVERS)
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert read_request(job.environ).members == ("algo-1", "algo-2")


def test_hosts_whose_names_do_not_resolve_are_called_by_their_addresses(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    for parameters, found in ((MPI, "--host algo-1,10.0.0.2"), (TORCHRUN, "--master_addr algo-1")):
        job.hyperparameters(**parameters)
        request = read_request(job.environ)._replace(network=Network({"algo-2": "10.0.0.2"}))
        launch = make_host_plan(request).launch
        assert found in " ".join(launch.processes[0].argv)


def test_the_data_service_gets_a_secret_of_the_job_and_the_addresses_of_hosts_without_a_name(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters().env(DLC_DATA_TOKEN="the user's own")
    network = Network({"algo-2": "10.0.0.2"}, data_token="5ec4e7")
    request = read_request(job.environ)._replace(network=network)
    [process] = make_host_plan(request).launch.processes
    assert process.env["DLC_DATA_TOKEN"] == "5ec4e7"
    assert json.loads(process.env["DLC_HOST_ADDRESSES"]) == {"algo-2": "10.0.0.2"}


def test_variables_of_a_thousand_hosts_that_are_too_long_are_left_out_and_named(job: JobFolder) -> None:
    names = [
        f"worker-{number:04d}.a-training-job-with-a-long-name.namespace.svc.cluster.local" for number in range(1000)
    ]
    job.config("resourceconfig", {"current_host": names[1], "hosts": names}).hyperparameters()
    data = job.explain()
    assert "SM_TRAINING_ENV" not in data["env"]
    assert json.loads(data["env"]["SM_HOSTS"]) == names
    assert max(len(f"{name}={value}") for name, value in data["env"].items()) < 128 * 1024
    assert "warning: SM_TRAINING_ENV is left out" in [decision["what"] for decision in data["decisions"]]


def test_a_stated_strategy_comes_before_every_request(job: JobFolder) -> None:
    job.hyperparameters(**MPI).env(DLC_STRATEGY="torchrun")
    assert roles(job) == [("torchrun", 1, True)]
    assert roles(job.env(DLC_STRATEGY="single")) == [("worker", 0, True)]


def test_the_first_request_of_the_platforms_order_wins(job: JobFolder) -> None:
    job.hyperparameters(**MPI, **TORCHRUN, **XLA, sagemaker_multi_worker_mirrored_strategy_enabled=True)
    assert job.explain()["strategy"] == "mpi"


def test_a_group_that_is_stated_in_local_mode_may_be_the_only_one(job: JobFolder) -> None:
    job.config("resourceconfig", {"current_host": "a", "hosts": ["a", "b"]})
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["homogeneousCluster"])
    assert job.explain()["cluster"]["distribution_hosts"] == ["a", "b"]


def test_sixty_four_hosts_in_two_groups_are_all_counted(job: JobFolder) -> None:
    names = sorted(f"algo-{number}" for number in range(1, 65))
    groups = [
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": names[:32]},
        {"instance_group_name": "dnn", "instance_type": "ml.p4d.24xlarge", "hosts": names[32:]},
    ]
    config = {"hosts": names, "current_host": names[-1], "current_group_name": "dnn", "instance_groups": groups}
    job.config("resourceconfig", config).env(DLC_NUM_GPUS="8")
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["dnn"])
    process = job.process()
    assert process["rank"] == 31 * 8
    assert process["argv"][process["argv"].index("--master_addr") + 1] == names[32]


def test_a_users_own_tf_config_stays_and_has_its_own_servers(job: JobFolder) -> None:
    mine = json.dumps({"cluster": {"worker": ["algo-1:1", "algo-2:1"]}, "task": {"type": "worker", "index": 1}})
    job.hyperparameters(sagemaker_multi_worker_mirrored_strategy_enabled=True).env(TF_CONFIG=mine)
    assert "TF_CONFIG" not in job.process()["env"]  # unchanged
    job.hyperparameters(**SERVERS)
    assert roles(job) == [("worker", 1, True)]
    assert "TF_CONFIG is set" in decisions(job.explain())


def test_ipv6_literals_get_their_brackets_wherever_a_port_follows(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("fd00::1", "fd00::2", current="fd00::1"))
    job.hyperparameters(**TORCHRUN).env(DLC_ELASTIC="1:2")
    assert "[fd00::1]:7777" in job.process()["argv"]
    job.hyperparameters(sagemaker_multi_worker_mirrored_strategy_enabled=True)
    config = json.loads(job.process()["env"]["TF_CONFIG"])
    assert config["cluster"]["worker"] == ["[fd00::1]:8890", "[fd00::2]:8890"]
    config = json.loads(job.hyperparameters(**SERVERS).process(1)["env"]["TF_CONFIG"])
    assert config["cluster"]["master"] == ["[fd00::1]:2222"]
    assert config["cluster"]["ps"][1] == "[fd00::2]:2223"
    assert job.hyperparameters(**HOROVOD).process(1)["env"]["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "[fd00::1]"


def test_a_parameter_server_counts_the_hosts_of_its_own_group(job: JobFolder) -> None:
    job.config("resourceconfig", {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"})
    job.hyperparameters(**SERVERS, sagemaker_distribution_instance_groups=["data"])
    assert roles(job) == [("worker", 0, True)]
    assert "TF_CONFIG" not in job.process()["env"]
    assert read_request(job.environ).members == ("algo-2",)  # the others still end with it
    two = [{**DATA, "hosts": ["algo-2"]}, {**DNN, "hosts": ["algo-1"]}]
    job.config("resourceconfig", {**HETEROGENEOUS, "hosts": ["algo-1", "algo-2"], "instance_groups": two})
    job.hyperparameters(**SERVERS, sagemaker_distribution_instance_groups=["dnn"])
    assert "no parameter server: there is one host to share parameters" in decisions(job.explain())


@pytest.mark.parametrize(("stated", "fact"), [(None, None), ("", None), ("{}", False), ('{"partitions": 2}', True)])
def test_scripts_that_ask_for_amazons_own_libraries_are_told_as_on_the_platform(
    job: JobFolder, stated: str | None, fact: bool | None
) -> None:
    job.hyperparameters().env(**({} if stated is None else {"SM_HP_MP_PARAMETERS": stated}))
    facts = training_env(job.explain())
    assert facts["is_modelparallel_enabled"] is fact
    assert (facts["is_smddpmprun_installed"], facts["is_smddprun_installed"]) == (False, False)


def test_without_a_path_of_the_user_programs_are_found_at_the_usual_places(job: JobFolder) -> None:
    del job.hyperparameters().environ["PATH"]
    assert job.explain()["env"]["PATH"] == "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin"


def test_a_parameter_server_on_the_only_host_is_not_asked_for_as_on_the_platform(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**SERVERS)
    assert (job.explain()["strategy"], read_request(job.environ).strategy) == ("single", None)


def test_what_an_outer_job_said_does_not_reach_the_script(job: JobFolder) -> None:
    stale = {"SM_HP_OLD": "1", "SM_CHANNEL_OLD": "/x", "SM_HOST_COUNT": "9", "SM_TOPOLOGY": "[]"}
    job.hyperparameters().env(**stale, SM_STUDIO_LOCAL_MODE="true", SM_CURRENT_HOST="other")
    env = make_host_plan(read_request(job.environ)).context.env
    assert not set(stale) & set(env)
    assert (env["SM_CURRENT_HOST"], env["SM_STUDIO_LOCAL_MODE"]) == ("algo-2", "true")
