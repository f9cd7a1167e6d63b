"""What the strategy ray makes of a job on one host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import HETEROGENEOUS, HOMOGENEOUS, RAY, JobFolder, decisions, hosts, install, roles
from launch.base.errors import CONFIG, LaunchError
from launch.base.process_spec import Launch
from launch.plan.host_plan import make_host_plan
from launch.plan.network import Network
from launch.plan.request import read_request
from launch.preflight import consistency

DNN_GROUP = {"sagemaker_distribution_instance_groups": ["dnn"]}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1", "algo-2")).code()
    return folder.hyperparameters(**RAY)


def on(job: JobFolder, host: str, group: str) -> JobFolder:
    """The heterogeneous job as this host sees it."""
    return job.config("resourceconfig", {**HETEROGENEOUS, "current_host": host, "current_group_name": group})


def launch(job: JobFolder, network: Network) -> Launch:
    """What runs when the hosts have met."""
    return make_host_plan(read_request(job.environ)._replace(network=network)).launch


def option(process: dict[str, Any], name: str) -> str:
    """The value of `--name=value` in its command."""
    found: str = next(word for word in process["argv"] if word.startswith(f"--{name}=")).partition("=")[2]
    return found


def refusal(job: JobFolder) -> str:
    with pytest.raises(LaunchError) as caught:
        job.explain()
    assert caught.value.exit_code == CONFIG
    return str(caught.value)


def test_the_first_host_has_the_head_and_the_script_and_every_other_one_a_node(job: JobFolder) -> None:
    assert roles(job) == [("ray head", 0, False), ("worker", 0, True)]
    assert "--head" in job.process(0)["argv"]
    assert job.process(1)["argv"][-2:] == ["--", "train.py"]
    job.config("resourceconfig", hosts("algo-1", "algo-2", current="algo-2"))
    assert roles(job) == [("ray node", 1, False)]
    assert option(job.process(), "address") == "algo-1:6379"


def test_a_variable_chooses_it_too(job: JobFolder) -> None:
    assert roles(job.hyperparameters().env(DLC_STRATEGY="ray"))[0][0] == "ray head"


def test_the_end_of_the_script_is_the_end_of_the_job_on_every_host(job: JobFolder) -> None:
    for host in ("algo-1", "algo-2"):
        job.config("resourceconfig", hosts("algo-1", "algo-2", current=host))
        request = read_request(job.environ)
        assert (request.members, request.group_hosts) == (("algo-1",), ("algo-1", "algo-2"))


@pytest.mark.parametrize(("host", "group"), [("algo-1", "dnn"), ("algo-2", "data"), ("algo-3", "dnn")])
def test_the_head_is_on_the_first_host_of_the_distributed_group_and_all_groups_join(
    job: JobFolder, host: str, group: str
) -> None:
    on(job, host, group).hyperparameters(**RAY, **DNN_GROUP)
    request = read_request(job.environ)
    assert (request.members, request.group_hosts) == (("algo-3",), ("algo-1", "algo-2", "algo-3"))
    assert [role for role, *_ in roles(job)] == (["ray head", "worker"] if host == "algo-3" else ["ray node"])
    assert json.loads(option(job.process(), "resources")) == {group: 8}


@pytest.mark.parametrize(("node", "runs"), [("n1", ["ray head", "worker"]), ("n2", ["ray node"])])
def test_on_slurm_the_first_node_of_the_step_has_the_head(tmp_path: Path, node: str, runs: list[str]) -> None:
    job = JobFolder(tmp_path / "ml").code().hyperparameters(**RAY)
    job.env(SLURM_STEP_NODELIST="n[1-2]", SLURMD_NODENAME=node, SLURM_JOB_ID="7", SLURM_STEP_TASKS_PER_NODE="1(x2)")
    assert [role for role, *_ in roles(job)] == runs


def test_without_a_stated_group_the_whole_job_is_one_cluster(job: JobFolder) -> None:
    assert roles(on(job, "algo-1", "dnn")) == [("ray node", 1, False)]
    assert read_request(job.environ).members == ("algo-2",)


def test_a_node_has_the_devices_of_its_host_and_its_group_as_often_as_it_has_cpus(job: JobFolder) -> None:
    on(job, "algo-2", "data").hyperparameters(**RAY, **DNN_GROUP).env(DLC_NUM_CPUS="6", DLC_NUM_GPUS="2")
    process = job.process()
    assert (option(process, "num-cpus"), option(process, "num-gpus")) == ("6", "2")
    assert json.loads(option(process, "resources")) == {"data": 6}


def test_a_host_with_more_gpus_than_cpus_has_its_group_as_often_as_gpus(job: JobFolder) -> None:
    on(job, "algo-2", "data").hyperparameters(**RAY, **DNN_GROUP).env(DLC_NUM_CPUS="2", DLC_NUM_GPUS="8")
    assert json.loads(option(job.process(), "resources")) == {"data": 8}


def test_hosts_with_other_devices_fit_together(job: JobFolder) -> None:
    known = {}
    for host, group, gpus in (("algo-1", "dnn", "8"), ("algo-2", "data", "0"), ("algo-3", "dnn", "8")):
        known[host] = consistency.host_facts(read_request(on(job, host, group).env(DLC_NUM_GPUS=gpus).environ))
    assert consistency.compare_hosts(known) == []


def test_a_group_with_the_name_of_a_resource_of_rays_own_gets_none(job: JobFolder) -> None:
    group = {**HOMOGENEOUS["instance_groups"][0], "instance_group_name": "GPU"}  # type: ignore[dict-item]
    job.config("resourceconfig", {**HOMOGENEOUS, "current_group_name": "GPU", "instance_groups": [group]})
    assert option(job.process(), "resources") == "{}"
    assert "no resource for group GPU" in decisions(job.explain())


def test_nodes_listen_and_meet_on_the_jobs_own_network(job: JobFolder) -> None:
    met = {"sources": {"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"}, "secret": "5ec4e7"}
    head, script = launch(job, Network(listen=("fd00::1", "10.0.0.1"), **met)).processes  # type: ignore[arg-type]
    assert "--node-ip-address=10.0.0.1" in head.argv
    assert script.env["RAY_ADDRESS"] == "10.0.0.1:6379"
    job.config("resourceconfig", hosts("algo-1", "algo-2", current="algo-2"))
    (node,) = launch(job, Network(listen=("10.0.0.2",), **met)).processes  # type: ignore[arg-type]
    assert {"--node-ip-address=10.0.0.2", "--address=10.0.0.1:6379"} <= set(node.argv)


def test_a_network_of_ipv6_alone_is_taken_and_a_head_of_unknown_address_is_reached_by_its_name(job: JobFolder) -> None:
    head, script = launch(job, Network(listen=("fd00::1", "fd00::2"))).processes
    assert "--node-ip-address=fd00::1" in head.argv
    assert script.env["RAY_ADDRESS"] == "[fd00::1]:6379"
    head, script = launch(job, Network()).processes
    assert not [word for word in head.argv if word.startswith("--node-ip-address")]
    assert script.env["RAY_ADDRESS"] == "algo-1:6379"


def test_the_cluster_is_closed_by_a_secret_that_is_only_in_a_private_file(job: JobFolder) -> None:
    made = launch(job, Network(listen=("10.0.0.1",), secret="5ec4e7"))
    assert made.files == {"/run/dlc/ray_token": "5ec4e7"}
    for process in made.processes:
        known = {name: value for name, value in process.env.items() if name.startswith("RAY_AUTH")}
        assert known == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/run/dlc/ray_token"}
        assert "5ec4e7" not in " ".join((*process.argv, *process.env.values()))


def test_a_users_own_token_stays(job: JobFolder) -> None:
    job.env(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="mine")
    for process in launch(job, Network(secret="5ec4e7")).processes:
        assert "RAY_AUTH_TOKEN_PATH" not in process.env


def test_a_host_alone_is_reached_by_nobody_else(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1"))
    assert option(job.process(), "node-ip-address") == "127.0.0.1"
    assert job.process(1)["env"]["RAY_ADDRESS"] == "127.0.0.1:6379"
    assert job.process(0)["env"]["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"


def test_an_image_without_ray_is_refused_with_the_ways_to_get_it(job: JobFolder) -> None:
    install(job, "torch")
    said = refusal(job)
    assert "requirements.txt" in said
    assert "extras=[ray]" in said
    install(job, "ray")
    assert roles(job)[0][0] == "ray head"


def test_requirements_may_bring_ray(job: JobFolder) -> None:
    install(job, "torch")
    assert roles(job.code(["requirements.txt"], "ray"))[0][0] == "ray head"


def test_a_program_that_would_not_run_is_refused_on_every_host(job: JobFolder) -> None:
    job.code(["data.py"]).hyperparameters(**RAY, **DNN_GROUP).env(DLC_GROUP_PROGRAMS='{"data": "data.py"}')
    for host, group in (("algo-1", "dnn"), ("algo-2", "data")):
        assert "DLC_GROUP_PROGRAMS" in refusal(on(job, host, group))
    job.env(DLC_GROUP_PROGRAMS='{"dnn": "data.py"}')
    assert on(job, "algo-3", "dnn").process(1)["argv"][-1] == "data.py"


def test_a_run_folder_whose_path_is_too_long_for_rays_sockets_is_refused(job: JobFolder) -> None:
    assert roles(job.env(DLC_RUN_DIR="/run/" + "x" * 33))[0][0] == "ray head"
    said = refusal(job.env(DLC_RUN_DIR="/run/" + "x" * 34))
    assert said.startswith("DLC_RUN_DIR: ")
    assert "expected at most 38 characters" in said
