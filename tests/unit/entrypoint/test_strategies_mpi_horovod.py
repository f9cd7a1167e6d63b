"""What mpi and horovod make of a job on one host, beyond the worked cases of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import HOROVOD, MPI, JobFolder, decisions, hosts, install, roles
from launch.base.errors import CONFIG, LaunchError
from launch.plan.host_plan import make_host_plan
from launch.plan.network import Network
from launch.plan.request import read_request


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1", "algo-2", current="algo-2")).code()


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
    server, rank = make_host_plan(read_request(job.environ)._replace(network=network)).launch.processes
    assert rank.env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.1:7778/5ec4e7"
    assert server.env["DLC_RENDEZVOUS_SECRET"] == "5ec4e7"
    assert "5ec4e7" not in " ".join((*server.argv, *rank.argv))
    assert server.argv[-1] == "10.0.0.1"


@pytest.mark.parametrize(("known", "reached"), [("10.0.0.1", "10.0.0.1"), ("fd00::1", "algo-1")])
def test_ranks_of_horovod_meet_at_an_address_that_the_group_knows_if_horovod_can_use_it(
    job: JobFolder, known: str, reached: str
) -> None:
    job.hyperparameters(**HOROVOD)
    network = Network({}, {"algo-1": known}, (), "5ec4e7")
    (rank,) = make_host_plan(read_request(job.environ)._replace(network=network)).launch.processes
    assert rank.env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == f"{reached}:7778/5ec4e7"
    assert reached in rank.argv  # what is waited for


def test_ranks_of_one_host_need_no_name_to_meet(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("no-such-name")).hyperparameters(**HOROVOD).env(DLC_NUM_GPUS="2")
    assert job.process(1)["env"]["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"
    assert job.process(0)["argv"][-1] == "127.0.0.1"


def test_gloo_takes_loopback_on_a_host_alone_without_the_jobs_interface(job: JobFolder) -> None:
    """Without an interface it looks up the host's own name, and crashes where that does not resolve."""
    job.hyperparameters(**HOROVOD)

    def interface(*found: str) -> str | None:
        request = read_request(job.environ)
        request = request._replace(devices=request.devices._replace(interfaces=found))
        return make_host_plan(request).launch.processes[-1].env.get("HOROVOD_GLOO_IFACE")

    assert interface("lo") is None  # of two hosts: loopback leads to none
    job.config("resourceconfig", hosts("algo-1"))
    assert interface("lo") == "lo"
    assert interface("eth0", "lo") == "eth0"


def test_a_single_horovod_process_meets_nobody(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**HOROVOD)
    assert roles(job) == [("worker", 0, True)]
    assert "HOROVOD_GLOO_RENDEZVOUS_ADDR" not in job.process()["env"]


def test_horovod_runs_below_mpirun_where_it_is_asked_to(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    job.hyperparameters(**HOROVOD).env(DLC_HOROVOD_CONTROLLER="mpi")
    assert roles(job) == [("mpirun", 0, True)]
    assert read_request(job.environ).members == ("algo-1",)


def test_below_mpi_only_the_leader_works_and_the_others_serve_it(job: JobFolder) -> None:
    job.hyperparameters(**MPI)
    assert roles(job) == [("mpi host", 1, False)]
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    process = job.process()
    assert "/programs/mpi_agent.py" in process["argv"][process["argv"].index("plm_rsh_agent") + 1]
    assert process["env"]["DLC_MPI_SITE"] == "/run/dlc/mpi_site.json"
    assert not any(item.startswith("SM_") for item in process["argv"])


def test_the_hosts_of_an_mpi_job_know_where_to_start_each_other_and_from_where_the_leader_comes(job: JobFolder) -> None:
    known = {"algo-1": "10.0.0.1", "algo-2": "10.0.0.3", "algo-3": "10.0.0.4"}
    network = Network({"algo-2": "10.0.0.2"}, known, ("10.0.0.9",), "secret")
    job.hyperparameters(**MPI).env(DLC_MPI_PORT="7000", DLC_RUN_DIR="/private")
    for host in ("algo-1", "algo-2"):
        job.config("resourceconfig", hosts("algo-1", "algo-2", current=host))
        request = read_request(job.environ)._replace(network=network)
        launch = make_host_plan(request).launch
        assert json.loads(launch.files["/private/mpi_site.json"]) == [
            "secret", 7000, ["10.0.0.2"], ["10.0.0.9"], "10.0.0.1", {"10.0.0.2": "10.0.0.3"},
        ]  # fmt: skip


def test_mpirun_does_not_hear_of_slurm_whose_srun_no_image_has_and_its_ranks_do(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**MPI)
    job.env(SLURM_JOBID="5", SLURM_JOB_ID="5", SLURM_NODELIST="algo-[1-2]")
    launch = make_host_plan(read_request(job.environ)).launch
    assert not [name for name in launch.processes[0].env if name.startswith("SLURM_")]
    ranks = next(text for path, text in launch.files.items() if path.endswith("rank_environment.json"))
    assert json.loads(ranks)["SLURM_JOBID"] == "5"


def test_one_host_below_mpi_waits_for_nobody(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**MPI)
    launch = make_host_plan(read_request(job.environ)).launch
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


@pytest.mark.parametrize(
    ("options", "level", "others"),
    [
        ("--NCCL_DEBUG WARN -x A=1", "WARN", ["-x", "A=1"]),
        ("-x A=1 -NCCL_DEBUG=", "", ["-x", "A=1"]),
        ("-x A=1 --NCCL_DEBUG", "INFO", ["-x", "A=1"]),
        ("", "INFO", []),
    ],
)
def test_nccls_level_may_stand_among_the_options_of_mpirun(
    job: JobFolder, options: str, level: str, others: list[str]
) -> None:
    job.config("resourceconfig", hosts("algo-1")).hyperparameters(**MPI, sagemaker_mpi_custom_mpi_options=options)
    argv = job.process()["argv"]
    assert [word for word in argv if "NCCL_DEBUG" in word] == [f"NCCL_DEBUG={level}"]
    begin = argv.index("PATH") + 1
    assert argv[begin : argv.index("/usr/bin/python3", begin)] == others


def test_options_for_the_mpirun_of_smdistributed_are_not_used_by_torchrun_and_that_is_said(job: JobFolder) -> None:
    asked = {"sagemaker_distributed_dataparallel_enabled": True}
    said = "sagemaker_distributed_dataparallel_custom_mpi_options is not used: there is no mpirun"
    assert said not in decisions(job.hyperparameters(**asked).explain())
    job.hyperparameters(**asked, sagemaker_distributed_dataparallel_custom_mpi_options="-x A=1")
    assert (job.explain()["strategy"], said in decisions(job.explain())) == ("torchrun", True)
    job.code(["run.sh"]).hyperparameters(**asked, sagemaker_program="run.sh")
    assert job.explain()["strategy"] == "mpi"


def test_without_mpi4py_in_the_image_ranks_run_without_it_and_a_line_says_so(job: JobFolder) -> None:
    install(job, "torch")
    data = job.config("resourceconfig", hosts("algo-1")).hyperparameters(**MPI).explain()
    assert data["processes"][0]["argv"][-2:] == ["--", "train.py"]
    assert "mpi4py" not in data["processes"][0]["argv"]
    assert "ranks run without mpi4py" in decisions(data)


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


def test_mpirun_cannot_take_ipv6_literals_and_that_is_said_before_it_starts(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("fd00::1", "fd00::2", current="fd00::1")).hyperparameters(**MPI)
    with pytest.raises(LaunchError, match="IPv6 literal, which mpirun cannot take"):
        job.explain()


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
