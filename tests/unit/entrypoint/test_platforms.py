"""Slurm, Kubernetes and Kubeflow: what is wired is found, what only looks like a cluster is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import Paths
from launch.discovery import cluster
from launch.discovery import discover as discover_module
from launch.discovery.cluster import NUMBERS
from launch.discovery.slurm import expand_node_list

HET = {
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_JOB_NODELIST_PACK_GROUP_0": "n2",
    "SLURM_JOB_NODELIST_PACK_GROUP_1": "n1",
}


def discover(**environ: str) -> cluster.Cluster:
    return discover_module.discover(environ, Paths("/no/such/folder"))


def refused(**environ: str) -> str:
    with pytest.raises(LaunchError) as error:
        discover(**environ)
    assert error.value.exit_code == CONFIG
    return str(error.value)


# --- Slurm


@pytest.mark.parametrize(
    ("node_list", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11,20]", ["n08", "n09", "n10", "n11", "n20"]),
        ("r[1-2]n[1-2],x", ["r1n1", "r1n2", "r2n1", "r2n2", "x"]),
        ("g[1,3]-ib", ["g1-ib", "g3-ib"]),
    ],
)
def test_slurms_node_lists_are_expanded(node_list: str, names: list[str]) -> None:
    assert list(expand_node_list(node_list)) == names


@pytest.mark.parametrize("node_list", ["n[", "n[1", "n]", "n[1-]", "n[3-1]", "n[]", ",", "a,,b", "n[1-999999999]"])
def test_a_malformed_node_list_is_an_error(node_list: str) -> None:
    with pytest.raises(LaunchError, match="SLURM_STEP_NODELIST"):
        list(expand_node_list(node_list))


def test_a_slurm_step_is_a_cluster() -> None:
    found = discover(
        SLURM_STEP_NODELIST="n[1-2]", SLURM_NODEID="1", SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_JOB_ID="7"
    )
    assert (found.source, found.hosts, found.current_host) == ("Slurm", ("n1", "n2"), "n2")
    assert found.task is None


def test_a_node_is_known_by_its_name_before_its_number() -> None:
    found = discover(SLURM_STEP_NODELIST="n[1-2]", SLURM_NODEID="0", SLURMD_NODENAME="n2")
    assert found.current_host == "n2"


def test_nodes_of_a_heterogeneous_job_are_ranked_by_component_and_each_component_is_a_group() -> None:
    found = discover(**HET, SLURM_NODEID="0", SLURMD_NODENAME="n2")
    assert (found.hosts, found.current_host, found.current_group) == (("n2", "n1"), "n2", "group-0")
    assert [group.hosts for group in found.groups] == [("n2",), ("n1",)]
    by_number = discover(**HET, SLURM_NODEID="0")  # as the step counts
    assert by_number.current_host == "n2"


def test_slurms_newer_name_of_the_components_is_known_too() -> None:
    newer = {name.replace("PACK", "HET"): value for name, value in HET.items()}
    assert len(discover(**newer, SLURMD_NODENAME="n1").groups) == 2


@pytest.mark.parametrize(("node", "size"), [("0", 2), ("2", 1)])
def test_with_several_tasks_on_a_node_each_is_a_rank(node: str, size: int) -> None:
    found = discover(
        SLURM_STEP_NODELIST="n[1-3]",
        SLURM_NODEID=node,
        SLURM_STEP_TASKS_PER_NODE="2(x2),1",
        SLURM_STEP_NUM_TASKS="5",
        SLURM_PROCID="4",
        SLURM_LOCALID="0",
    )
    assert found.task == cluster.Task(rank=4, world_size=5, local_rank=0, local_size=size)


@pytest.mark.parametrize(
    "wrong", [{"SLURM_PROCID": "9"}, {"SLURM_PROCID": ""}, {"SLURM_STEP_TASKS_PER_NODE": "x"}, {"SLURM_NODEID": "7"}]
)
def test_a_task_that_cannot_be_is_an_error(wrong: dict[str, str]) -> None:
    right = {
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURM_NODEID": "0",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_NTASKS": "4",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    assert discover(**right).task
    refused(**{**right, **wrong})


@pytest.mark.parametrize(
    "size",
    [{"SLURM_JOB_NUM_NODES": "2"}, {"SLURM_NNODES": "2"}, {"SLURM_JOB_NODELIST": "n[1-2]"}, {"SLURM_NODELIST": "a,b"}],
)
def test_an_allocation_of_several_nodes_without_a_step_is_refused(size: dict[str, str]) -> None:
    said = refused(SLURM_JOB_ID="7", SLURM_NODEID="0", SLURM_PROCID="0", **size)
    assert "an allocation of 2 nodes, but no step" in said
    assert "srun --ntasks-per-node=1" in said
    assert "DLC_HOSTS" in said


def test_the_shell_of_an_interactive_allocation_is_no_step_of_several_nodes() -> None:
    shell = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NODELIST": "n1", "SLURM_PROCID": "0"}
    said = refused(**shell, SLURM_JOB_NUM_NODES="2", SLURM_NODEID="0")
    assert "an allocation of 2 nodes, but no step" in said
    assert "expected SLURM_STEP_NODELIST; found that of an interactive shell" in said
    assert discover(**shell, SLURM_JOB_NUM_NODES="1", SLURM_NODEID="0").source == "single host"


def test_an_allocation_of_one_node_needs_no_step() -> None:
    assert discover(SLURM_JOB_ID="7", SLURM_JOB_NUM_NODES="1").source == "single host"


def test_who_says_so_trains_alone_in_an_allocation_of_several_nodes() -> None:
    assert discover(SLURM_JOB_ID="7", SLURM_JOB_NUM_NODES="2", DLC_HOSTS="me").hosts == ("me",)


def test_a_step_whose_container_was_told_no_task_is_refused() -> None:
    said = refused(SLURM_JOB_ID="7", SLURM_STEP_NODELIST="n[1-2]")
    assert "each would train alone" in said
    assert "SLURMD_NODENAME or SLURM_NODEID" in said


def test_a_step_of_one_node_needs_no_task() -> None:
    assert discover(SLURM_STEP_NODELIST="n1").hosts == ("n1",)
    assert discover(SLURM_STEP_NODELIST="n1", SLURM_PROCID="0").hosts == ("n1",)


def test_several_tasks_of_one_node_that_were_not_told_which_they_are_are_refused() -> None:
    said = refused(SLURM_JOB_ID="7", SLURM_STEP_NODELIST="n1", SLURM_STEP_TASKS_PER_NODE="2")
    assert "a step of several tasks on a node, but nothing says which of them this is: each would train alone" in said
    assert "expected SLURM_PROCID; found none; let the container have the task's variables" in said


# --- Kubernetes


def test_an_indexed_job_is_a_cluster_behind_its_service() -> None:
    found = discover(JOB_COMPLETION_INDEX="1", DLC_NUM_HOSTS="3", HOSTNAME="train-1", DLC_SERVICE="headless")
    assert found.hosts == ("train-0.headless", "train-1.headless", "train-2.headless")
    assert found.current_host == "train-1.headless"


def test_the_replicas_of_a_job_set_are_one_cluster() -> None:
    found = discover(
        JOB_COMPLETION_INDEX="0",
        DLC_NUM_HOSTS="2",
        HOSTNAME="pt-workers-1-0",
        JOBSET_NAME="pt",
        REPLICATED_JOB_REPLICAS="2",
        JOB_INDEX="1",
    )
    assert found.hosts == ("pt-workers-0-0.pt", "pt-workers-0-1.pt", "pt-workers-1-0.pt", "pt-workers-1-1.pt")
    assert found.current_host == "pt-workers-1-0.pt"


def test_an_indexed_job_whose_number_of_pods_nobody_states_is_refused() -> None:
    said = refused(JOB_COMPLETION_INDEX="1", HOSTNAME="train-1")
    assert "each would train alone" in said
    assert "or to 1 where each pod is a job of its own" in said


def test_pods_that_are_stated_to_be_jobs_of_their_own_are_so() -> None:
    assert discover(JOB_COMPLETION_INDEX="3", DLC_NUM_HOSTS="1", HOSTNAME="train-3").source == "single host"


@pytest.mark.parametrize(
    "wrong", [{"DLC_NUM_HOSTS": "x"}, {"JOB_COMPLETION_INDEX": "3"}, {"HOSTNAME": "train"}, {"DLC_NUM_HOSTS": "0"}]
)
def test_a_wrong_kubernetes_variable_is_an_error(wrong: dict[str, str]) -> None:
    refused(**{"JOB_COMPLETION_INDEX": "1", "DLC_NUM_HOSTS": "3", "HOSTNAME": "train-1", **wrong})


# --- Kubeflow

TRAINER = {
    "PET_NNODES": "3",
    "PET_NPROC_PER_NODE": "auto",
    "PET_MASTER_ADDR": "t-node-0-0.t",
    "PET_MASTER_PORT": "29400",
}


def test_a_train_job_of_trainer_v2_is_a_cluster_although_it_is_an_indexed_job_too() -> None:
    found = discover(**TRAINER, PET_NODE_RANK="2", JOB_COMPLETION_INDEX="2", HOSTNAME="t-node-0-2")
    assert found.hosts == ("t-node-0-0.t", "t-node-0-1.t", "t-node-0-2.t")
    assert found.current_host == "t-node-0-2.t"


def test_a_pytorch_job_is_a_master_and_its_workers() -> None:
    found = discover(RANK="2", WORLD_SIZE="3", MASTER_ADDR="job-master-0", MASTER_PORT="23456")
    assert found.hosts == ("job-master-0", "job-worker-0", "job-worker-1")
    assert found.current_host == "job-worker-1"


def test_a_pytorch_jobs_master_that_calls_itself_localhost_is_found_by_its_own_name() -> None:
    found = discover(RANK="0", WORLD_SIZE="2", MASTER_ADDR="localhost", HOSTNAME="job-master-0")
    assert found.hosts == ("job-master-0", "job-worker-0")


def test_a_pytorch_job_that_counts_processes_has_as_many_hosts_as_it_has() -> None:
    found = discover(RANK="1", WORLD_SIZE="16", PET_NPROC_PER_NODE="8", MASTER_ADDR="job-master-0")
    assert found.hosts == ("job-master-0", "job-worker-0")


def test_an_elastic_pytorch_job_of_a_fixed_size_is_a_cluster_of_workers() -> None:
    found = discover(PET_NNODES="2:2", PET_RDZV_ENDPOINT="job-worker-0:29400", HOSTNAME="job-worker-1")
    assert (found.hosts, found.current_host) == (("job-worker-0", "job-worker-1"), "job-worker-1")


def test_a_job_that_may_change_its_size_has_to_be_stated_as_elastic() -> None:
    elastic = {"PET_NNODES": "1:2", "PET_RDZV_ENDPOINT": "job-worker-0:29400", "HOSTNAME": "job-worker-1"}
    assert "DLC_ELASTIC to 1:2" in refused(**elastic)
    assert len(discover(**elastic, DLC_ELASTIC="1:2").hosts) == 2


@pytest.mark.parametrize(
    "environ",
    [
        {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"},
        {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "main.net"},
        {**TRAINER, "PET_NODE_RANK": "3"},
        {**TRAINER, "PET_NNODES": "x"},
        TRAINER,
    ],
)
def test_variables_of_torchrun_that_name_no_hosts_are_refused(environ: dict[str, str]) -> None:
    refused(**environ)


def test_one_node_of_trainer_v2_is_one_host() -> None:
    assert discover(**{**TRAINER, "PET_NNODES": "1"}).hosts == ("algo-1",)


def tf_config(kind: str, index: int, **tasks: list[str]) -> str:
    return json.dumps({"cluster": tasks, "task": {"type": kind, "index": index}, "environment": "cloud"})


def test_a_tf_job_is_a_cluster_with_a_group_for_each_type_of_task() -> None:
    tasks = {
        "ps": ["j-ps-0.ns:2222"],
        "worker": ["j-worker-0.ns:2222", "j-worker-1.ns:2222"],
        "chief": ["j-chief:2222"],
    }
    found = discover(TF_CONFIG=tf_config("worker", 1, **tasks))
    assert found.hosts == ("j-chief", "j-worker-0.ns", "j-worker-1.ns", "j-ps-0.ns")
    assert (found.current_host, found.current_group) == ("j-worker-1.ns", "worker")


def test_ipv6_literals_in_tf_config_are_hosts() -> None:
    found = discover(TF_CONFIG=tf_config("worker", 1, worker=["[fd00::1]:2222", "[fd00::2]:2222"]))
    assert found.hosts == ("fd00::1", "fd00::2")


@pytest.mark.parametrize(
    "text",
    [tf_config("worker", 0, worker=["localhost:1", "localhost:2"]), tf_config("evaluator", 0, worker=["a:1", "b:1"])],
)
def test_tasks_of_one_host_and_evaluators_are_alone(text: str) -> None:
    assert discover(TF_CONFIG=text).source == "single host"


@pytest.mark.parametrize(
    "text",
    ["{", "3", '{"cluster": 3}', '{"cluster": {"worker": "a:1"}}', tf_config("worker", 2, worker=["a:1", "b:1"]),
     '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "x"}}',
     '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "%s"}}' % ("9" * 5000)],
)  # fmt: skip
def test_a_malformed_tf_config_is_an_error(text: str) -> None:
    assert "TF_CONFIG" in refused(TF_CONFIG=text)


@pytest.mark.parametrize("task", [{}, {"task": {}}, {"task": {"type": "wroker", "index": 0}}])
def test_a_task_that_is_in_no_cluster_and_no_evaluator_is_refused(task: dict[str, object]) -> None:
    said = refused(TF_CONFIG=json.dumps({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}, **task}))
    assert "expected a task of type worker or ps or evaluator: this host would train alone" in said
    alone = json.dumps({"cluster": {"worker": ["a:1"]}, **task})  # then there is nobody that it could be apart from
    assert discover(TF_CONFIG=alone).source == "single host"


def test_the_launcher_of_an_mpi_job_is_found_and_its_workers_are_refused() -> None:
    assert discover(K_MPI_JOB_ROLE="launcher", OMPI_MCA_orte_default_hostfile="/etc/mpi/hostfile").source == "MPIJob"
    assert "the operator starts sshd" in refused(K_MPI_JOB_ROLE="worker")


def test_parameter_servers_of_a_tf_job_are_known_not_to_end_by_themselves() -> None:
    text = tf_config("ps", 0, ps=["p:1"], worker=["w:1"])
    assert discover(TF_CONFIG=text).servers == ("p",)


# --- others


@pytest.mark.parametrize("name", NUMBERS)
def test_a_platform_that_is_not_wired_is_refused_with_the_way_to_wire_it(name: str) -> None:
    said = refused(**{name: "2"})
    assert "DLC_HOSTS to the hosts and DLC_RANK" in said
    assert discover(**{name: "1"}).source == "single host"
    assert discover(**{name: "2"}, DLC_HOSTS="a,b", DLC_RANK="1").current_host == "b"


def test_every_way_that_is_looked_at_only_for_its_variables_says_which() -> None:
    assert set(discover_module.VARIABLES) < set(discover_module.DISCOVERERS)


def test_the_platforms_file_comes_before_whatever_the_environment_looks_like(tmp_path: Path) -> None:
    config = tmp_path / "input/config"
    config.mkdir(parents=True)
    (config / "resourceconfig.json").write_text('{"current_host": "algo-1", "hosts": ["algo-1"]}')
    environ = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "4", "TF_CONFIG": "{", "JOB_COMPLETION_INDEX": "1"}
    assert discover_module.discover(environ, Paths(str(tmp_path))).source == "resourceconfig.json"
