"""What a strategy makes of a job where a platform other than SageMaker starts the launcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import HOROVOD, MPI, SERVERS, TORCHRUN, XLA, JobFolder, roles
from launch.base.errors import LaunchError
from launch.base.settings import SETTINGS
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request

TRAINER = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "3",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "t-node-0-0.t",
    "PET_MASTER_PORT": "29400",
    "PET_RDZV_BACKEND": "c10d",
}
TASK = {
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}

SAY_WHO_IS_THERE = ("DLC_HOSTS", "DLC_GROUPS", "DLC_RANK", "DLC_NUM_HOSTS")  # each of these has to say something


@pytest.fixture
def elsewhere(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "elsewhere").hyperparameters().code()


def test_trainer_v2_expects_torchrun_and_what_it_told_is_in_the_flags(elsewhere: JobFolder) -> None:
    process = elsewhere.env(**TRAINER).process()
    flags = "--nnodes 2 --nproc_per_node 3 --master_addr t-node-0-0.t --master_port 29400 --node_rank 1"
    assert " ".join(process["argv"]) == f"torchrun {flags} train.py"
    env = make_host_plan(read_request(elsewhere.environ)).context.env
    assert not [name for name in env if name.startswith("PET_")]  # torchrun would take c10d from it


@pytest.mark.parametrize(("stated", "number"), [("cpu", 8), ("gpu", 2), ("auto", 2), ("3", 3)])
def test_kubeflow_may_say_which_devices_get_a_process_each(elsewhere: JobFolder, stated: str, number: int) -> None:
    elsewhere.env(**{**TRAINER, "PET_NPROC_PER_NODE": stated}, DLC_NUM_CPUS="8", DLC_NUM_GPUS="2")
    argv = elsewhere.process()["argv"]
    assert argv[argv.index("--nproc_per_node") + 1] == str(number)


def test_a_number_of_nodes_that_says_nothing_expects_no_torchrun(elsewhere: JobFolder) -> None:
    assert elsewhere.env(PET_NNODES="").explain()["strategy"] == "single"


@pytest.mark.parametrize("asked", [{}, TORCHRUN, HOROVOD, SERVERS])
def test_a_switch_that_is_set_to_nothing_is_not_set(elsewhere: JobFolder, asked: dict[str, Any]) -> None:
    """As compose files and charts pass variables on that nobody set."""
    elsewhere.env(**TRAINER).hyperparameters(**asked)
    switches = [switch.name for switch in SETTINGS if switch.name not in SAY_WHO_IS_THERE]
    for name in switches:
        elsewhere.environ.pop(name, None)
    unset = elsewhere.explain()
    told = elsewhere.env(**dict.fromkeys(switches, "")).explain()
    for part in ("strategy", "decisions", "job", "devices"):
        assert told[part] == unset[part]


def test_trainer_v2_leaves_other_programs_and_other_strategies_alone(elsewhere: JobFolder) -> None:
    elsewhere.env(**TRAINER).code(["run.sh"])
    assert elsewhere.env(DLC_STRATEGY="horovod").explain()["strategy"] == "horovod"
    assert elsewhere.env(DLC_STRATEGY="single").explain()["strategy"] == "single"
    del elsewhere.environ["DLC_STRATEGY"]
    assert elsewhere.env(SAGEMAKER_PROGRAM="run.sh").explain()["strategy"] == "single"


def test_a_plain_process_of_a_pytorch_job_has_the_rank_that_it_was_given(elsewhere: JobFolder) -> None:
    elsewhere.env(RANK="1", WORLD_SIZE="2", MASTER_ADDR="job-master-0", MASTER_PORT="23456")
    data = elsewhere.explain()
    assert (data["strategy"], data["cluster"]["current_host"]) == ("single", "job-worker-0")
    env = make_host_plan(read_request(elsewhere.environ)).context.env
    assert (env["RANK"], env["MASTER_ADDR"]) == ("1", "job-master-0")
    argv = elsewhere.env(DLC_STRATEGY="torchrun").process()["argv"]
    assert " ".join(argv[5:]) == "--master_addr job-master-0 --master_port 23456 --node_rank 1 train.py"


@pytest.mark.parametrize("asked", [{}, TORCHRUN])
def test_each_of_several_slurm_tasks_is_a_rank(elsewhere: JobFolder, asked: dict[str, Any]) -> None:
    process = elsewhere.env(**TASK).hyperparameters(**asked).process()
    assert process["argv"][-1] == "train.py"
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    assert [process["env"].get(name) for name in names[:5]] == ["3", "4", "1", "2", "1"]
    assert elsewhere.explain()["env"]["MASTER_ADDR"] == "n1"
    assert read_request(elsewhere.environ).members == ()


def test_a_slurm_task_that_sees_its_own_gpu_alone_takes_the_first(elsewhere: JobFolder) -> None:
    assert elsewhere.env(**TASK, DLC_NUM_GPUS="1").process()["env"]["LOCAL_RANK"] == "0"
    assert elsewhere.env(DLC_NUM_GPUS="2").process()["env"]["LOCAL_RANK"] == "1"


@pytest.mark.parametrize("asked", [MPI, HOROVOD, XLA])
def test_a_strategy_that_starts_ranks_itself_wants_one_slurm_task_for_each_node(
    elsewhere: JobFolder, asked: dict[str, Any]
) -> None:
    elsewhere.env(**TASK).hyperparameters(**asked)
    with pytest.raises(LaunchError, match="srun --ntasks-per-node=1") as error:
        elsewhere.explain()
    assert error.value.exit_code == 78


def test_stated_groups_are_one_job_unless_some_of_them_are_asked_for(elsewhere: JobFolder) -> None:
    elsewhere.env(DLC_GROUPS="data=h1;dnn=h2,h3", DLC_RANK="1").hyperparameters(**TORCHRUN)
    assert elsewhere.explain()["cluster"]["distribution_hosts"] == ["h1", "h2", "h3"]
    elsewhere.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["dnn"])
    assert elsewhere.explain()["cluster"]["distribution_hosts"] == ["h2", "h3"]
    assert roles(elsewhere.env(DLC_RANK="0")) == [("worker", 0, True)]


def mpi_launcher(elsewhere: JobFolder, hosts: str, **environ: str) -> JobFolder:
    """The launcher pod of an MPIJob with this host file."""
    host_file = elsewhere.base / "hostfile"
    host_file.write_text(hosts)
    return elsewhere.env(K_MPI_JOB_ROLE="launcher", OMPI_MCA_orte_default_hostfile=str(host_file), **environ)


def test_an_mpi_jobs_launcher_starts_mpirun_with_the_operators_hosts_and_our_variables(elsewhere: JobFolder) -> None:
    mpi_launcher(elsewhere, "# made by the operator\njob-worker-0.job slots=8\njob-worker-1.job slots=8\n")
    argv = elsewhere.process()["argv"]
    assert elsewhere.process()["env"]["MASTER_ADDR"] == "job-worker-0.job"
    assert "--host" not in argv
    assert argv[argv.index("SM_MODEL_DIR") - 1] == "-x"
    assert argv[-3:] == ["-m", "mpi4py", "train.py"]


def test_mpirun_starts_once_the_sshd_of_every_worker_listens(elsewhere: JobFolder) -> None:
    hosts = "job-launcher.job slots=8\njob-worker-0.job slots=8\njob-worker-1.job:8\n"
    mpi_launcher(elsewhere, hosts, HOSTNAME="job-launcher", DLC_PEER_TIMEOUT="60.5")
    argv = elsewhere.process()["argv"]
    waiting = argv[: argv.index("--")]
    assert waiting[-6].endswith("/wait_for_servers.py")
    assert waiting[-5:] == ["60", "job-worker-0.job", "22", "job-worker-1.job", "22"]
    assert argv[argv.index("--") + 1] == "mpirun"


@pytest.mark.parametrize(
    "own", [{"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh"}, {"OMPI_MCA_plm_rsh_args": "-o Port=2222"}, {}]
)
def test_nobody_is_waited_for_at_port_22_if_the_user_reaches_hosts_otherwise(
    elsewhere: JobFolder, own: dict[str, str]
) -> None:
    mpi_launcher(elsewhere, "job-worker-0.job slots=8\n" if own else "localhost slots=2\n", **own)
    assert elsewhere.process()["argv"][0] == "mpirun"
