"""Every worked case of the contract that a launcher can be asked, through --explain=json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.contract_cases import CASES, lay_out
from harness.job_folder import JobFolder, training_env
from launch.base.errors import LaunchError

# Cases about programs that are not ours: what the SDK refuses or sends before a container starts, the drivers that
# the SDK brings along and runs instead of an entrypoint, the example launchers, scripts' own library.
NOT_OURS = re.compile(r"(sdk-|smtc-(hp|reject|pt)|v3-(env|mpi|torchrun)|hetex-)")
# What happens after a process was started: asserted where the processes are, in the tests of run, supervise and peers.
MECHANICS = re.compile(r"(exit-|sig-|dns-|log-|pt-gloo|mpi-1[23]|src-)")

# Each with its reason in docs/launcher-reference.md; the function asserts what we do instead.
DIFFERENCES: dict[str, Callable[[JobFolder], None]] = {}


def difference(*ids: str) -> Callable[[Callable[[JobFolder], None]], Callable[[JobFolder], None]]:
    """Register what the launcher does in these cases instead of what the peer does."""

    def register(check: Callable[[JobFolder], None]) -> Callable[[JobFolder], None]:
        DIFFERENCES.update(dict.fromkeys(ids, check))
        return check

    return register


@difference("env-06-no-program")
def _no_program_is_a_clear_error(job: JobFolder) -> None:
    with pytest.raises(LaunchError, match="no entry point") as error:
        job.explain()
    assert error.value.exit_code == 78


@difference("env-07-missing-resourceconfig", "env-09-missing-inputdataconfig")
def _a_missing_file_is_an_empty_one(job: JobFolder) -> None:
    data = job.explain()
    assert data["cluster"]["hosts"] == ["algo-1"]
    assert data["job"]["channels"] == {}
    assert data["processes"][0]["argv"][-1] == "train.py"


@difference("env-08-missing-hyperparameters")
def _without_hyperparameters_the_variable_names_the_program(job: JobFolder) -> None:
    job.code().env(SAGEMAKER_PROGRAM="train.py")
    assert job.process()["argv"][1:] == ["--", "train.py"]


@difference("ep-03-shell", "ep-05-extensionless")
def _no_shell_reads_the_arguments(job: JobFolder) -> None:
    argv = job.process()["argv"]
    assert argv in (["/bin/sh", "./launcher.sh", "--lr", "1 3"], ["./bash_script"])


@difference("ep-07a-rejected-abs", "ep-07e-rejected-dotslash")
def _any_path_below_the_code_directory_is_taken(job: JobFolder) -> None:
    parameters = json.loads((job.base / "input/config/hyperparameters.json").read_text())
    program = json.loads(parameters["sagemaker_program"]).replace("/opt/ml", str(job.base))
    job.code().hyperparameters(sagemaker_program=program)
    assert job.process()["argv"][1:] == ["--", "train.py"]


@difference("mpi-11-unknown-current-host")
def _a_host_that_is_not_in_the_list_is_an_error(job: JobFolder) -> None:
    with pytest.raises(LaunchError, match="current_host; expected one of") as error:
        job.explain()
    assert error.value.exit_code == 65


@difference("smddp-01-two-hosts", "ddp-01-pytorchddp")
def _nccl_under_torchrun_replaces_the_private_library(job: JobFolder) -> None:
    data = job.explain()
    assert data["processes"][0]["argv"][:5] == ["torchrun", "--nnodes", "2", "--nproc_per_node", "8"]
    assert data["processes"][0]["argv"][-1] == "train.py"
    assert data["cluster"]["distribution_hosts"] == ["algo-1", "algo-2"]


@difference("xla-01-single")
def _xla_runs_on_pjrt(job: JobFolder) -> None:
    process = job.process()
    assert process["argv"] == ["torchrun", "--nnodes", "1", "--nproc_per_node", "8", "train.py"]
    assert process["env"]["PJRT_DEVICE"] == "CUDA"
    assert process["env"]["GPU_NUM_DEVICES"] == "8"
    assert json.loads(process["env"]["SM_FRAMEWORK_PARAMS"])["sagemaker_training_compiler_enabled"] is True


@difference("smtc-container-env-enabled")
def _the_training_compiler_is_the_images_own_compiler(job: JobFolder) -> None:
    env = job.env(DLC_COMPILER_DEFAULT="inductor").process()["env"]
    assert env["DLC_COMPILER"] == "inductor"
    assert not {"GPU_NUM_DEVICES", "SM_TRAINING_COMPILER_CONFIGURED"} & set(env)


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml")


@pytest.mark.parametrize("name", [name for name in CASES if not NOT_OURS.match(name) and not MECHANICS.match(name)])
def test_a_case_of_the_contract_comes_out_as_the_peer_has_it_or_differs_on_purpose(name: str, job: JobFolder) -> None:
    case = CASES[name]
    lay_out(job, case)
    if name in DIFFERENCES:
        DIFFERENCES[name](job)
    elif "error" in case["expect"]:
        with pytest.raises(LaunchError) as error:
            job.explain()
        assert 64 <= error.value.exit_code <= 78
    else:
        data = job.explain()
        for key, expected in case["expect"].items():
            check: Callable[[dict[str, Any], str, Any], None] = CHECKS.get(key, check_environment_fact)
            check(data, key, expected)


def test_every_case_is_ours_or_has_a_reason_not_to_be() -> None:
    assert len(CASES) == 89
    assert set(DIFFERENCES) <= set(CASES)


def test_every_difference_is_in_the_documentation() -> None:
    documented = Path("docs/launcher-reference.md").read_text()
    assert [name for name in DIFFERENCES if f"`{name}`" not in documented] == []


def check_args(data: dict[str, Any], _key: str, expected: list[str]) -> None:
    assert data["job"]["arguments"] == expected


def check_hyperparameters(data: dict[str, Any], _key: str, expected: dict[str, Any]) -> None:
    def plain(value: Any) -> Any:
        return float(value["$float"]) if isinstance(value, dict) and "$float" in value else value

    assert repr(data["job"]["hyperparameters"]) == repr({name: plain(value) for name, value in expected.items()})


def check_env(data: dict[str, Any], _key: str, expected: dict[str, str]) -> None:
    assert {name: data["env"].get(name) for name in expected} == expected


def check_set_env(data: dict[str, Any], _key: str, expected: dict[str, str]) -> None:
    if not data["devices"]["efa"]:  # see "NCCL_PROTO" in the table of differences
        expected = {name: value for name, value in expected.items() if name != "NCCL_PROTO"}
    env = data["processes"][0]["env"]
    assert {name: env.get(name) for name in expected} == expected


def check_framework_parameters(data: dict[str, Any], _key: str, expected: dict[str, Any]) -> None:
    assert data["job"]["framework_parameters"] == expected


def check_tf_config(data: dict[str, Any], _key: str, expected: dict[str, Any] | None) -> None:
    text = data["processes"][-1]["env"].get("TF_CONFIG")
    assert (json.loads(text) if text else None) == expected


def check_parameter_server(data: dict[str, Any], _key: str, expected: dict[str, Any]) -> None:
    server = data["processes"][0]
    config = json.loads(server["env"]["TF_CONFIG"])
    assert (server["role"], config["task"]) == ("ps", {"index": expected["task_index"], "type": expected["job_name"]})
    assert config["cluster"]["ps"][expected["task_index"]].endswith(f":{expected['port']}")
    assert server["env"]["CUDA_VISIBLE_DEVICES"] == "-1"


def check_runner(data: dict[str, Any], _key: str, expected: str) -> None:
    role = {
        "ProcessRunner": "worker",
        "MasterRunner": "mpirun",
        "MPI": "mpirun",
        "WorkerRunner": "mpi host",
        "TorchDistributedRunner": "torchrun",
    }[expected.rpartition(".")[2]]
    assert data["processes"][-1]["role"] == role


def check_command(data: dict[str, Any], _key: str, expected: list[str]) -> None:
    argv = ["/usr/bin/python3" if item == "/opt/venv/bin/python" else item for item in data["processes"][0]["argv"]]
    # On purpose: torchrun's parser is kept from the script's options
    if argv[0] == "torchrun":
        argv = [item for item in argv if item != "--"]
    if argv[0] == "mpirun":
        argv, expected = comparable_mpirun(argv), comparable_mpirun(expected)
    assert argv == expected


def comparable_mpirun(argv: list[str]) -> list[str]:
    """mpirun's command without what differs on purpose: see "MPI" in the table of differences."""
    text = "\0".join(argv)
    for pattern in (
        r"\0-x\0(SM_[A-Z_]+|PYTHONPATH|LD_PRELOAD=[^\0]*)",  # each rank gets its own host's variables
        r"\0-x\0(FI_PROVIDER|FI_EFA_USE_DEVICE_RDMA)=[^\0]*",  # they are in each host's own variables
        r"\0-mca\0plm_rsh_agent\0[^\0]*",  # no ssh
        r"\0--display-map|\0--tag-output",
        r"\0/usr/bin/python3\0-I\0-S\0[^\0]*mpi_rank.py\0[^\0]*",
    ):
        text = re.sub(pattern, "", text)
    head, _, rest = text.partition("\0-x\0NCCL_MIN")
    exported = sorted(f"-x {name}" for name in re.findall(r"-x\0([^\0]*)", rest))
    return [*head.split("\0"), *exported, *re.sub(r"-x\0[^\0]*\0?", "", rest).split("\0")]


def check_model_dir(data: dict[str, Any], _key: str, expected: str) -> None:
    assert data["job"]["arguments"] == ["--model_dir", expected]


def check_order(data: dict[str, Any], _key: str, _expected: list[str]) -> None:
    assert data["strategy"] == "mpi"


def check_module(data: dict[str, Any], key: str, expected: str) -> None:
    assert data["env"][f"SM_{key.upper()}"] == expected


def check_environment_fact(data: dict[str, Any], key: str, expected: object) -> None:
    assert training_env(data)[key] == expected


def check_nothing(_data: dict[str, Any], _key: str, _expected: object) -> None:
    """Only a remark in the case."""


CHECKS: dict[str, Callable[[dict[str, Any], str, Any], None]] = {
    "args": check_args,
    "hyperparameters": check_hyperparameters,
    "env": check_env,
    "set_env": check_set_env,
    "additional_framework_parameters": check_framework_parameters,
    "TF_CONFIG": check_tf_config,
    "ps_process": check_parameter_server,
    "runner": check_runner,
    "cmd": check_command,
    "--model_dir": check_model_dir,
    "order": check_order,
    "module_dir": check_module,
    "local": check_nothing,
}
