"""A /opt/ml in a temporary folder, and what the launcher makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from launch.plan import explain
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request

HOMOGENEOUS = {
    "current_host": "algo-1",
    "current_instance_type": "ml.g5.xlarge",
    "current_group_name": "homogeneousCluster",
    "hosts": ["algo-1"],
    "instance_groups": [
        {"instance_group_name": "homogeneousCluster", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1"]}
    ],
    "network_interface_name": "eth0",
}

DATA = {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2"]}
DNN = {"instance_group_name": "dnn", "instance_type": "ml.p4d.24xlarge", "hosts": ["algo-3", "algo-1"]}
HETEROGENEOUS = {
    "current_host": "algo-1",
    "current_group_name": "dnn",
    "current_instance_type": "ml.p4d.24xlarge",
    "hosts": ["algo-1", "algo-2", "algo-3"],
    "instance_groups": [DATA, DNN],
    "network_interface_name": "eth0",
}


# Hyperparameters that ask for a strategy.
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
MPI = {"sagemaker_mpi_enabled": True}
HOROVOD = {"sagemaker_horovod_enabled": True}
XLA = {"sagemaker_pytorch_xla_multi_worker_enabled": True}
SERVERS = {"sagemaker_parameter_server_enabled": True}
RAY = {"sagemaker_ray_enabled": True}


def hosts(*names: str, current: str = "") -> dict[str, Any]:
    """A resourceconfig.json of one group."""
    group = {**HOMOGENEOUS["instance_groups"][0], "hosts": list(names)}  # type: ignore[dict-item]
    return {**HOMOGENEOUS, "current_host": current or names[0], "hosts": list(names), "instance_groups": [group]}


class JobFolder:
    """The relocated /opt/ml of one host."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.environ = {
            "SAGEMAKER_BASE_DIR": str(base),
            "DLC_NUM_GPUS": "0",
            "DLC_NUM_CPUS": "8",
            "DLC_NUM_NEURONS": "0",
            "DLC_EFA": "0",
            "DLC_VENV": "/opt/venv",
            "PATH": "/usr/bin:/bin",
        }
        (base / "input/config").mkdir(parents=True)

    def config(self, name: str, content: object) -> JobFolder:
        """Write input/config/NAME.json, JSON unless it is text or bytes already."""
        path = self.base / f"input/config/{name}.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return self

    def hyperparameters(self, **values: object) -> JobFolder:
        """Write hyperparameters.json as the SDK does: every value JSON once more."""
        program = {} if "sagemaker_program" in values else {"sagemaker_program": "train.py"}
        return self.config(
            "hyperparameters", {name: json.dumps(value) for name, value in {**program, **values}.items()}
        )

    def code(self, names: Iterable[str] = ("train.py",), text: str = "") -> JobFolder:
        """Put files into the code directory."""
        for name in names:
            path = self.base / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self

    def env(self, **variables: str) -> JobFolder:
        """Set variables of the container."""
        self.environ.update(variables)
        return self

    def explain(self) -> dict[str, Any]:
        """What `--explain=json` prints. Raises LaunchError as it does."""
        text = explain.as_json(make_host_plan(read_request(self.environ)))
        data: dict[str, Any] = json.loads(text.replace(str(self.base), "/opt/ml"))
        return data

    def process(self, index: int = 0) -> dict[str, Any]:
        """One of the processes."""
        process: dict[str, Any] = self.explain()["processes"][index]
        return process


def training_env(data: Mapping[str, Any]) -> dict[str, Any]:
    """SM_TRAINING_ENV, parsed."""
    parsed: dict[str, Any] = json.loads(data["env"]["SM_TRAINING_ENV"])
    return parsed


def roles(job: JobFolder) -> list[tuple[str, int, bool]]:
    """(role, rank, essential) of every process of the job on this host."""
    return [(process["role"], process["rank"], process["essential"]) for process in job.explain()["processes"]]


def decisions(data: dict[str, Any]) -> str:
    """What `--explain` says was decided and why, a line each."""
    return "\n".join(f"{decision['what']}: {decision['why']}" for decision in data["decisions"])


def install(job: JobFolder, *libraries: str) -> None:
    """Let the job's image have these."""
    for library in libraries:
        (job.base / f"venv/lib/python3.11/site-packages/{library}").mkdir(parents=True)
    job.env(DLC_VENV=str(job.base / "venv"))


def compiler_image(
    job: JobFolder, *libraries: str, torch: str = "2.13.0", armed: bool = True, cxx: bool = True
) -> JobFolder:
    """The job in an image that holds these libraries and, unless told otherwise, what a compiler needs."""
    packages = job.base / "venv/lib/python3.11/site-packages"
    for library in libraries:
        (packages / library).mkdir(parents=True)
    if "torch" in libraries:
        (packages / "torch/version.py").write_text(
            f"from typing import Optional\n__version__ = '{torch}'\ncuda = None\n"
        )
    if armed:
        (packages / "dlc_runtime.pth").write_text("")
    programs = job.base / "programs"
    programs.mkdir()
    if cxx:
        (programs / "g++").touch(mode=0o755)
    return job.env(DLC_VENV=str(job.base / "venv"), PATH=str(programs))
