"""What each strategy makes of a job on one host, beyond the worked cases of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from job_folder import HETEROGENEOUS, HOROVOD, MPI, SERVERS, TORCHRUN, XLA, JobFolder, hosts, roles

from launch.base.errors import CONFIG, LaunchError
from launch.plan import interpretation
from launch.plan.network import Network


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1", "algo-2", current="algo-2")).code()


def decisions(data: dict[str, Any]) -> str:
    return "\n".join(f"{decision['what']}: {decision['why']}" for decision in data["decisions"])


def install(job: JobFolder, *libraries: str) -> None:
    for library in libraries:
        (job.base / f"venv/lib/python3.11/site-packages/{library}").mkdir(parents=True)
    job.env(DLC_VENV=str(job.base / "venv"))


def test_a_plain_job_on_several_hosts_is_one_process_on_each_and_all_end_together(job: JobFolder) -> None:
    job.hyperparameters()
    assert roles(job) == [("worker", 0, True)]
    request = interpretation.read(job.environ)
    assert request.members == request.group_hosts == request.cluster.hosts


def test_ranks_of_torchrun_count_from_the_first_host_of_the_group(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN, sagemaker_mpi_num_of_processes_per_host=3).env(DLC_NUM_GPUS="8")
    process = job.process()
    assert process["rank"] == 3
    assert process["argv"][3:5] == ["--nproc_per_node", "3"]
    assert process["env"]["OMP_NUM_THREADS"] == "2"  # 8 CPUs, 3 processes


def test_one_process_keeps_its_librarys_number_of_threads(job: JobFolder) -> None:
    assert "OMP_NUM_THREADS" not in job.hyperparameters(**TORCHRUN).process()["env"]


def test_elastic_torchrun_meets_at_the_leader_without_fixed_ranks(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN).env(DLC_ELASTIC="1:4:2", TRAINING_JOB_NAME="job-7")
    argv = " ".join(job.process()["argv"])
    assert "--nnodes 1:4 --max_restarts 2 --rdzv_backend c10d --rdzv_endpoint algo-1:7777" in argv
    assert "--rdzv_conf is_host=false --local_addr algo-2 --rdzv_id job-7" in argv
    assert "--node_rank" not in argv


def test_efa_is_used_where_there_is_efa_and_not_elsewhere(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN)
    assert "FI_PROVIDER" not in job.process()["env"]
    job.env(DLC_EFA="1")
    assert job.process()["env"]["FI_PROVIDER"] == "efa"
    job.env(FI_PROVIDER="tcp")
    assert "FI_PROVIDER" not in job.process()["env"]  # the user's own stays


def test_a_host_outside_of_the_stated_group_runs_the_script_and_ends_with_the_group(job: JobFolder) -> None:
    config = {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"}
    job.config("resourceconfig", config)
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["dnn"])
    assert roles(job) == [("worker", 0, True)]
    request = interpretation.read(job.environ)
    assert request.members == ("algo-3", "algo-1")
    assert request.group_hosts == ("algo-1", "algo-2", "algo-3")
    assert "the distributed group is algo-3, algo-1" in decisions(job.explain())


def test_without_stated_groups_each_group_is_a_job_of_its_own(job: JobFolder) -> None:
    job.config("resourceconfig", HETEROGENEOUS).hyperparameters(**TORCHRUN)
    request = interpretation.read(job.environ)
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
    assert interpretation.read(job.environ).members == ("algo-1", "algo-2")
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert interpretation.read(job.environ).members == ("algo-1",)


def test_a_parameter_server_job_of_the_platform_ends_when_every_worker_has_trained(job: JobFolder) -> None:
    job.hyperparameters(**SERVERS)
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert interpretation.read(job.environ).members == ("algo-1", "algo-2")


def test_horovod_starts_every_rank_and_the_leader_a_meeting_place(job: JobFolder) -> None:
    job.hyperparameters(**HOROVOD).env(DLC_NUM_GPUS="2")
    assert roles(job) == [("worker", 2, True), ("worker", 3, True)]
    env = job.process(1)["env"]
    expected = {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2", "CROSS_RANK": "1", "CROSS_SIZE": "2"}
    assert {name: env[f"HOROVOD_{name}"] for name in expected} == expected
    assert (env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], env["HOROVOD_GLOO_RENDEZVOUS_PORT"]) == ("algo-1", "7778")
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert roles(job)[0] == ("rendezvous", 0, False)


def test_ranks_are_told_the_secret_of_their_meeting_place_and_nobody_else_hears_it(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**HOROVOD)
    network = Network({"algo-1": "10.0.0.1"}, {}, ("10.0.0.1",), "5ec4e7")
    server, rank = interpretation.decide(interpretation.read(job.environ)._replace(network=network)).launch.processes
    assert rank.env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.1:7778/5ec4e7"
    assert server.env["DLC_RENDEZVOUS_SECRET"] == "5ec4e7"
    assert "5ec4e7" not in " ".join((*server.argv, *rank.argv))
    assert server.argv[-1] == "10.0.0.1"


def test_ranks_of_one_host_need_no_name_to_meet(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("no-such-name")).hyperparameters(**HOROVOD).env(DLC_NUM_GPUS="2")
    assert job.process(1)["env"]["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"
    assert job.process(0)["argv"][-1] == "127.0.0.1"


def test_hosts_whose_names_do_not_resolve_are_called_by_their_addresses(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    for parameters, found in ((MPI, "--host algo-1,10.0.0.2"), (TORCHRUN, "--master_addr algo-1")):
        job.hyperparameters(**parameters)
        request = interpretation.read(job.environ)._replace(network=Network({"algo-2": "10.0.0.2"}))
        launch = interpretation.decide(request).launch
        assert found in " ".join(launch.processes[0].argv)


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


def test_a_single_horovod_process_meets_nobody(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**HOROVOD)
    assert roles(job) == [("worker", 0, True)]
    assert "HOROVOD_GLOO_RENDEZVOUS_ADDR" not in job.process()["env"]


def test_horovod_runs_below_mpirun_where_it_is_asked_to(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    job.hyperparameters(**HOROVOD).env(DLC_HOROVOD_CONTROLLER="mpi")
    assert roles(job) == [("mpirun", 0, True)]
    assert interpretation.read(job.environ).members == ("algo-1",)


def test_below_mpi_only_the_leader_works_and_the_others_serve_it(job: JobFolder) -> None:
    job.hyperparameters(**MPI)
    assert roles(job) == [("mpi host", 1, False)]
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    process = job.process()
    assert "/programs/mpi_agent.py" in process["argv"][process["argv"].index("plm_rsh_agent") + 1]
    assert process["env"]["DLC_MPI_SITE"] == "/run/dlc/mpi_site.json"
    assert not any(item.startswith("SM_") for item in process["argv"])


def test_the_hosts_of_an_mpi_job_know_where_to_start_each_other_and_from_where_the_leader_comes(job: JobFolder) -> None:
    network = Network({"algo-2": "10.0.0.2"}, {"algo-1": "10.0.0.1"}, ("10.0.0.9",), "secret")
    job.hyperparameters(**MPI).env(DLC_MPI_PORT="7000", DLC_RUN_DIR="/private")
    for host in ("algo-1", "algo-2"):
        job.config("resourceconfig", hosts("algo-1", "algo-2", current=host))
        request = interpretation.read(job.environ)._replace(network=network)
        launch = interpretation.decide(request).launch
        assert json.loads(launch.files["/private/mpi_site.json"]) == [
            "secret", 7000, ["10.0.0.2"], ["10.0.0.9"], "10.0.0.1",
        ]  # fmt: skip


def test_mpirun_does_not_hear_of_slurm_whose_srun_no_image_has_and_its_ranks_do(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**MPI)
    job.env(SLURM_JOBID="5", SLURM_JOB_ID="5", SLURM_NODELIST="algo-[1-2]")
    launch = interpretation.decide(interpretation.read(job.environ)).launch
    assert not [name for name in launch.processes[0].env if name.startswith("SLURM_")]
    ranks = next(text for path, text in launch.files.items() if path.endswith("rank_environment.json"))
    assert json.loads(ranks)["SLURM_JOBID"] == "5"


def test_one_host_below_mpi_waits_for_nobody(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**MPI)
    launch = interpretation.decide(interpretation.read(job.environ)).launch
    assert [path.rpartition("/")[2] for path in launch.files] == ["rank_environment.json"]
    assert "DLC_MPI_SITE" not in launch.processes[0].env


@pytest.mark.parametrize(
    ("options", "as_is"),
    [("--output-filename log", True), ("--merge-stderr-to-stdout", True), ("-x OUTPUT=1 --tag-output", False)],
)
def test_where_mpirun_itself_writes_the_ranks_output_it_gets_text(job: JobFolder, options: str, as_is: bool) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**MPI, sagemaker_mpi_custom_mpi_options=options)
    assert ("--as-is" in job.process()["argv"]) == as_is


def test_mpi_takes_custom_options_with_quotes_and_any_entry_point(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).code(["run.sh"], "#!/bin/bash\n")
    options = "-x A='b c' --NCCL_DEBUG=TRACE -verbose"
    job.hyperparameters(sagemaker_program="run.sh", **MPI, sagemaker_mpi_custom_mpi_options=options)
    argv = job.process()["argv"]
    assert "A=b c" in argv
    assert "NCCL_DEBUG=TRACE" in argv
    assert argv[-2:] == ["/bin/bash", "./run.sh"]
    assert "mpi4py" not in argv


def test_without_mpi4py_in_the_image_ranks_run_without_it_and_a_line_says_so(job: JobFolder) -> None:
    install(job, "torch")
    data = job.config("resourceconfig", hosts("algo-1")).hyperparameters(**MPI).explain()
    assert data["processes"][0]["argv"][-2:] == ["--", "train.py"]
    assert "mpi4py" not in data["processes"][0]["argv"]
    assert "ranks run without mpi4py" in decisions(data)


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


def test_smdistributed_in_a_tensorflow_image_runs_on_mpi(job: JobFolder) -> None:
    install(job, "tensorflow")
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    job.hyperparameters(
        sagemaker_distributed_dataparallel_enabled=True,
        sagemaker_distributed_dataparallel_custom_mpi_options="-x A=1",
    )
    data = job.explain()
    assert "A=1" in data["processes"][0]["argv"]
    assert "smdistributed runs on mpi with NCCL" in decisions(data)


def test_a_stated_strategy_comes_before_every_request(job: JobFolder) -> None:
    job.hyperparameters(**MPI).env(DLC_STRATEGY="torchrun")
    assert roles(job) == [("torchrun", 1, True)]
    assert roles(job.env(DLC_STRATEGY="single")) == [("worker", 0, True)]


def test_the_first_request_of_the_platforms_order_wins(job: JobFolder) -> None:
    job.hyperparameters(**MPI, **TORCHRUN, **XLA, sagemaker_multi_worker_mirrored_strategy_enabled=True)
    assert job.explain()["strategy"] == "mpi"


@pytest.mark.parametrize("strategy", [TORCHRUN, XLA])
def test_what_starts_python_processes_rejects_other_programs(job: JobFolder, strategy: dict[str, Any]) -> None:
    job.code(["run.sh"]).hyperparameters(sagemaker_program="run.sh", **strategy)
    with pytest.raises(LaunchError, match="expected a Python script"):
        job.explain()


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


def test_a_users_own_master_reaches_torchruns_flags(job: JobFolder) -> None:
    job.hyperparameters(**TORCHRUN).env(MASTER_ADDR="10.0.0.9", MASTER_PORT="29500")
    argv = " ".join(job.process()["argv"])
    assert "--master_addr 10.0.0.9 --master_port 29500" in argv
    assert "--rdzv_endpoint 10.0.0.9:29500" in " ".join(job.env(DLC_ELASTIC="1:2").process()["argv"])


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


def test_mpirun_cannot_take_ipv6_literals_and_that_is_said_before_it_starts(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("fd00::1", "fd00::2", current="fd00::1")).hyperparameters(**MPI)
    with pytest.raises(LaunchError, match="IPv6 literal, which mpirun cannot take"):
        job.explain()


def test_a_parameter_server_counts_the_hosts_of_its_own_group(job: JobFolder) -> None:
    job.config("resourceconfig", {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"})
    job.hyperparameters(**SERVERS, sagemaker_distribution_instance_groups=["data"])
    assert roles(job) == [("worker", 0, True)]
    assert "TF_CONFIG" not in job.process()["env"]
    assert interpretation.read(job.environ).members == ("algo-2",)  # the others still end with it


def test_what_an_outer_job_said_does_not_reach_the_script(job: JobFolder) -> None:
    stale = {"SM_HP_OLD": "1", "SM_CHANNEL_OLD": "/x", "SM_HOST_COUNT": "9", "SM_TOPOLOGY": "[]"}
    job.hyperparameters().env(**stale, SM_STUDIO_LOCAL_MODE="true", SM_CURRENT_HOST="other")
    env = interpretation.decide(interpretation.read(job.environ)).context.env
    assert not set(stale) & set(env)
    assert (env["SM_CURRENT_HOST"], env["SM_STUDIO_LOCAL_MODE"]) == ("algo-2", "true")


@pytest.mark.parametrize("strategy", [TORCHRUN, XLA, MPI])
def test_nccls_simple_protocol_is_for_efa_only(job: JobFolder, strategy: dict[str, Any]) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**strategy).env(DLC_NUM_GPUS="2")
    assert "NCCL_PROTO" not in job.process()["env"]
    assert "NCCL_PROTO=simple" not in job.process()["argv"]
    assert job.env(DLC_EFA="1").process()["env"]["NCCL_PROTO"] == "simple"


def test_without_an_accelerator_hugging_face_is_told_so(job: JobFolder) -> None:
    install(job, "torch")
    job.hyperparameters(**TORCHRUN)
    assert job.process()["env"]["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in job.env(ACCELERATE_USE_CPU="false").process()["env"]  # the user's own stays
    del job.environ["ACCELERATE_USE_CPU"]
    assert "ACCELERATE_USE_CPU" not in job.env(DLC_NUM_GPUS="1").process()["env"]


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


REASON = "no compiler for this CUDA"


def with_horovod(job: JobFolder, without_nccl: bool) -> None:
    """The job in an image with Horovod, compiled with or without NCCL."""
    install(job, "torch", "horovod")
    if without_nccl:
        folder = job.base / "venv/lib/python3.11/site-packages/horovod"
        (folder / "without_nccl.py").write_text(f'"""{REASON}"""\n')


@pytest.mark.parametrize(
    ("parameters", "variables"),
    [(HOROVOD, {}), (HOROVOD, {"DLC_HOROVOD_CONTROLLER": "mpi"}), (MPI, {})],
)
def test_horovod_without_nccl_is_refused_on_gpus_with_the_reason(
    job: JobFolder, parameters: dict[str, Any], variables: dict[str, str]
) -> None:
    """It would abort in a thread of its own at the first tensor on a GPU, and say nothing of the cause."""
    job.hyperparameters(**parameters).env(DLC_NUM_GPUS="1", **variables)
    job.code(text="import horovod.torch as hvd\n")
    with_horovod(job, without_nccl=True)
    with pytest.raises(LaunchError, match=f"found {REASON}; take an image with CUDA 12 or 13") as caught:
        job.explain()
    assert caught.value.exit_code == CONFIG


def test_horovod_without_nccl_runs_where_there_is_no_gpu_or_where_it_is_not_used(job: JobFolder) -> None:
    with_horovod(job, without_nccl=True)
    job.hyperparameters(**HOROVOD).env(DLC_NUM_GPUS="0")
    assert job.explain()["strategy"] == "horovod"
    job.hyperparameters(**MPI).env(DLC_NUM_GPUS="1")
    assert job.explain()["strategy"] == "mpi"


def test_horovod_with_nccl_runs_on_gpus(job: JobFolder) -> None:
    job.hyperparameters(**HOROVOD).env(DLC_NUM_GPUS="1")
    with_horovod(job, without_nccl=False)
    assert job.explain()["strategy"] == "horovod"
