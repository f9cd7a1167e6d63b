"""What torchrun and xla make of a job on one host, and the settings of accelerators, beyond the worked cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import MPI, TORCHRUN, XLA, JobFolder, decisions, hosts, install
from launch.base.errors import LaunchError
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1", "algo-2", current="algo-2")).code()


def test_ranks_of_torchrun_count_from_the_first_host_of_the_group(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN, sagemaker_mpi_num_of_processes_per_host=3).env(DLC_NUM_GPUS="8")
    process = job.process()
    assert process["rank"] == 3
    assert process["argv"][3:5] == ["--nproc_per_node", "3"]
    assert process["env"]["OMP_NUM_THREADS"] == "2"  # 8 CPUs, 3 processes


def test_one_process_keeps_its_librarys_number_of_threads(job: JobFolder) -> None:
    assert "OMP_NUM_THREADS" not in job.hyperparameters(**TORCHRUN).process()["env"]


@pytest.mark.parametrize(("processes", "threads"), [(2, "4"), (16, "1")])
def test_processes_share_the_cpus_and_each_has_one_at_least(job: JobFolder, processes: int, threads: str) -> None:
    job.hyperparameters(**TORCHRUN, sagemaker_mpi_num_of_processes_per_host=processes)
    assert job.process()["env"]["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize(("stated", "restarts"), [("2:2", 3), ("2:2:0", 0)])
def test_an_elastic_job_may_have_one_size(job: JobFolder, stated: str, restarts: int) -> None:
    argv = " ".join(job.hyperparameters(**TORCHRUN).env(DLC_ELASTIC=stated).process()["argv"])
    assert f"--nnodes 2:2 --max_restarts {restarts} " in argv


def test_elastic_torchrun_meets_at_the_leader_without_fixed_ranks(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN).env(DLC_ELASTIC="1:4:2", TRAINING_JOB_NAME="job-7")
    process = job.process()
    argv = " ".join(process["argv"])
    assert "--nnodes 1:4 --max_restarts 2 --rdzv_backend c10d --rdzv_endpoint algo-1:7777" in argv
    assert "--rdzv_conf is_host=false --rdzv_id job-7" in argv
    assert process["env"]["PET_LOCAL_ADDR"] == "algo-2"
    assert "--node_rank" not in argv


def test_torchrun_over_several_hosts_keeps_quiet_on_strangers_unless_the_user_says_what_it_logs(job: JobFolder) -> None:
    env = job.hyperparameters(**TORCHRUN).process()["env"]
    assert (env["TORCH_CPP_LOG_LEVEL"], env["DLC_RANK_QUIET"]) == ("ERROR", "0")
    job.env(TORCH_CPP_LOG_LEVEL="INFO")
    assert job.process()["env"].keys() & {"TORCH_CPP_LOG_LEVEL", "DLC_RANK_QUIET"} == set()


@pytest.mark.parametrize("strategy", [TORCHRUN, XLA])
def test_torchrun_on_one_host_does_not_look_up_the_hosts_own_name(job: JobFolder, strategy: dict[str, Any]) -> None:
    job.hyperparameters(**strategy)
    assert "PET_LOCAL_ADDR" not in job.process()["env"]
    job.config("resourceconfig", hosts("algo-1"))
    assert job.process()["env"]["PET_LOCAL_ADDR"] == "127.0.0.1"
    assert "PET_LOCAL_ADDR" not in job.env(PET_LOCAL_ADDR="10.0.0.1").process()["env"]  # the user's own stays


def test_efa_is_used_where_there_is_efa_and_not_elsewhere(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN)
    assert "FI_PROVIDER" not in job.process()["env"]
    job.env(DLC_EFA="1")
    assert job.process()["env"]["FI_PROVIDER"] == "efa"
    job.env(FI_PROVIDER="tcp")
    assert "FI_PROVIDER" not in job.process()["env"]  # the user's own stays


def test_xla_takes_the_device_that_there_is(job: JobFolder) -> None:
    job.hyperparameters(**XLA, sagemaker_mpi_num_of_processes_per_host=4)
    process = job.process()
    assert process["argv"][:5] == ["torchrun", "--nnodes", "2", "--nproc_per_node", "1"]
    assert (process["env"]["PJRT_DEVICE"], process["env"]["CPU_NUM_DEVICES"]) == ("CPU", "4")
    process = job.env(DLC_NUM_GPUS="8").process()
    assert process["argv"][4] == "4"
    assert (process["env"]["PJRT_DEVICE"], process["env"]["GPU_NUM_DEVICES"]) == ("CUDA", "4")
    job.env(DLC_NUM_GPUS="0", DLC_NUM_NEURONS="2")
    assert job.process()["env"]["PJRT_DEVICE"] == "NEURON"


@pytest.mark.parametrize(
    ("text", "spawned"),
    [
        ("def _mp_fn(index):\n    pass\n", True),
        ("_mp_fn = main\n", True),
        ("# def _mp_fn(index)\n", False),
        ("", False),
    ],
)
def test_a_script_with_mp_fn_is_called_by_our_spawn_program(job: JobFolder, text: str, spawned: bool) -> None:
    argv = job.code(text=text).hyperparameters(**XLA).process()["argv"]
    assert argv[-1] == "train.py"
    assert argv[-2].endswith("programs/xla_spawn.py") == spawned


def test_a_module_and_a_script_that_is_not_there_yet_are_not_called_by_our_spawn_program(job: JobFolder) -> None:
    job.code(["pkg/train.py"], "def _mp_fn(index):\n    pass\n")
    for program, target in (("-m pkg.train", ["-m", "pkg.train"]), ("later.py", ["1", "later.py"])):
        argv = job.hyperparameters(**XLA, sagemaker_program=program).process()["argv"]
        assert argv[-2:] == target


def test_the_users_own_device_of_xla_stays_and_each_thread_of_the_cpu_has_its_device(job: JobFolder) -> None:
    job.hyperparameters(**XLA, sagemaker_mpi_num_of_processes_per_host=4).env(DLC_NUM_GPUS="2", PJRT_DEVICE="CPU")
    assert "PJRT_DEVICE=CPU: set by the user" in decisions(job.explain())
    assert job.process()["env"]["XLA_THREAD_POOL_SIZE"] == "8"
    job.hyperparameters(**XLA, sagemaker_mpi_num_of_processes_per_host=16)
    assert job.process()["env"]["XLA_THREAD_POOL_SIZE"] == "16"


def test_who_starts_ranks_below_a_program_of_their_own_keeps_it(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN)
    assert job.process()["env"]["PYTHON_EXEC"].endswith("/programs/torch_rank.py")
    assert "DLC_RANK_PYTHON" not in job.env(PYTHON_EXEC="/mine").process()["env"]
    del job.environ["PYTHON_EXEC"]
    assert "PYTHON_EXEC" not in job.config("resourceconfig", hosts("algo-1")).process()["env"]


@pytest.mark.parametrize("strategy", [TORCHRUN, XLA])
def test_what_starts_python_processes_rejects_other_programs(job: JobFolder, strategy: dict[str, Any]) -> None:
    job.code(["run.sh"]).hyperparameters(sagemaker_program="run.sh", **strategy)
    with pytest.raises(LaunchError, match="expected a Python script"):
        job.explain()


def test_a_users_own_master_reaches_torchruns_flags(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN).env(MASTER_ADDR="10.0.0.9", MASTER_PORT="29500")
    argv = " ".join(job.process()["argv"])
    assert "--master_addr 10.0.0.9 --master_port 29500" in argv
    elastic = " ".join(job.env(DLC_ELASTIC="1:2").process()["argv"])
    assert "--rdzv_endpoint 10.0.0.9:29500" in elastic
    assert "is_host" not in elastic
    assert "[fd00::1]:29500" in job.env(MASTER_ADDR="[fd00::1]").process()["argv"]


@pytest.mark.parametrize("strategy", [TORCHRUN, XLA, MPI])
def test_nccls_simple_protocol_is_for_efa_only(job: JobFolder, strategy: dict[str, Any]) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**strategy).env(DLC_NUM_GPUS="2")
    assert "NCCL_PROTO" not in job.process()["env"]
    assert "NCCL_PROTO=simple" not in job.process()["argv"]
    assert job.env(DLC_EFA="1").process()["env"]["NCCL_PROTO"] == "simple"


def test_gloo_takes_the_jobs_interface_if_it_is_there_and_other_hosts_are(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN)

    def interface(*found: str) -> str | None:
        request = read_request(job.environ)
        request = request._replace(devices=request.devices._replace(interfaces=found))
        return make_host_plan(request).launch.processes[0].env.get("GLOO_SOCKET_IFNAME")

    assert (interface("lo"), interface("eth0", "lo")) == (None, "eth0")
    job.config("resourceconfig", hosts("algo-1"))
    assert interface("eth0") is None


def test_nccl_records_the_last_collectives_of_ranks_that_talk_over_it(job: JobFolder) -> None:
    install(job, "torch")
    job.hyperparameters(**TORCHRUN).env(DLC_RUN_DIR=str(job.base / "run"))
    recorder = {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/opt/ml/output/data/launcher/nccl_trace_rank_",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/opt/ml/run/nccl_trace_rank_",
    }
    assert not recorder.keys() & job.process()["env"].keys()
    assert recorder.items() <= job.env(DLC_NUM_GPUS="1").process()["env"].items()
    assert not recorder.keys() & job.hyperparameters().process()["env"].keys()  # a plain job


@pytest.mark.parametrize(
    ("version", "name"), [("2.12.1", "TORCH_NCCL_TRACE_BUFFER_SIZE"), ("2.13.0+cu130", "TORCH_FR_BUFFER_SIZE")]
)
def test_the_flight_recorders_size_has_the_name_that_this_pytorch_does_not_call_deprecated(
    job: JobFolder, version: str, name: str
) -> None:
    install(job, "torch")
    (job.base / "venv/lib/python3.11/site-packages/torch/version.py").write_text(f"__version__ = '{version}'\n")
    env = job.hyperparameters(**TORCHRUN).env(DLC_NUM_GPUS="1").process()["env"]
    assert [key for key in env if key.endswith("BUFFER_SIZE")] == [name]


@pytest.mark.parametrize("option", ["num", "log", "max", "node", "local", "nproc", "n", "m", "rdzv", "start", "tee"])
def test_no_option_of_the_script_is_within_torchruns_reach(job: JobFolder, option: str) -> None:
    argv = job.hyperparameters(**TORCHRUN, **{option: 1}).process()["argv"]
    assert argv[argv.index("--") + 1 :][0] == "train.py"
    argv = job.hyperparameters(sagemaker_program="-m package.train", **TORCHRUN, **{option: 1}).process()["argv"]
    assert argv[argv.index("-m") :][:3] == ["-m", "--", "package.train"]


def test_without_an_accelerator_hugging_face_is_told_so(job: JobFolder) -> None:
    install(job, "torch")
    job.hyperparameters(**TORCHRUN)
    assert job.process()["env"]["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in job.env(ACCELERATE_USE_CPU="false").process()["env"]  # the user's own stays
    del job.environ["ACCELERATE_USE_CPU"]
    assert "ACCELERATE_USE_CPU" not in job.env(DLC_NUM_GPUS="1").process()["env"]


def test_an_image_that_nobody_knows_may_hold_pytorch_and_one_of_tensorflow_does_not(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN)
    assert job.env(DLC_VENV="/none").process()["env"]["ACCELERATE_USE_CPU"] == "true"
    install(job, "tensorflow")
    assert "ACCELERATE_USE_CPU" not in job.process()["env"]


def test_torch_xla_in_the_image_is_used_only_where_xla_was_asked_for(job: JobFolder) -> None:
    install(job, "torch", "torch_xla")
    for gpus in ("0", "4"):
        job.env(DLC_NUM_GPUS=gpus).hyperparameters(**TORCHRUN)
        assert job.process()["env"]["USE_TORCH_XLA"] == "0"
    job.env(DLC_NUM_GPUS="0", DLC_NUM_NEURONS="2")  # which is what torch_xla is for
    assert not {"USE_TORCH_XLA", "ACCELERATE_USE_CPU"} & set(job.process()["env"])
    job.env(DLC_NUM_NEURONS="0")
    for asked in (XLA, {"sagemaker_training_compiler_enabled": True}):
        env = job.hyperparameters(**asked).env(DLC_COMPILER_DEFAULT="xla").process()["env"]
        assert not {"USE_TORCH_XLA", "ACCELERATE_USE_CPU"} & set(env)
    assert "USE_TORCH_XLA" not in job.hyperparameters().env(PJRT_DEVICE="CPU").process()["env"]


def test_an_image_without_torch_xla_gets_no_word_of_it(job: JobFolder) -> None:
    install(job, "torch")
    assert "USE_TORCH_XLA" not in job.hyperparameters().process()["env"]


def test_a_script_that_a_setup_py_makes_a_package_is_told_so(tmp_path: Path) -> None:
    job = JobFolder(tmp_path).hyperparameters(**TORCHRUN).code(("train.py", "setup.py"))
    with pytest.raises(LaunchError, match=r"the package train.py, because setup.py is beside it: .*\(-m train\)"):
        job.explain()
