"""Which libraries the image holds, by folder names: importing takes seconds; whether its Horovod works on GPUs."""

from __future__ import annotations

import glob
import os
import re

from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import Paths
from launch.base.private_files import can_be_made
from launch.base.process_spec import Decision
from launch.discovery.devices import Devices
from launch.plan.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KNOWN = ("torch", "torch_xla", "tensorflow", "tf_keras", "horovod", "mpi4py", "ray")
ON = ("1", "true", "True")  # as TensorFlow reads TF_USE_LEGACY_KERAS


def framework_variables(installed: frozenset[str], region: str) -> dict[str, str]:
    """What the platform's TensorFlow toolkit sets in its images, where the user did not."""
    if "tensorflow" not in installed:
        return {}
    return {"TF_CPP_MIN_LOG_LEVEL": "1", "S3_REGION": region, "S3_USE_HTTPS": "1"}


def keras_decisions(strategy: str, installed: frozenset[str], environ: Mapping[str, str]) -> tuple[Decision, ...]:
    """A warning where Keras 3 meets a strategy that it fails under; images with Keras 3 have tf-keras, too."""
    meets = strategy in ("horovod", "mpi", "tf_multi_worker", "tf_parameter_server")
    if not meets or "tf_keras" not in installed or environ.get("TF_USE_LEGACY_KERAS") in ON:
        return ()
    return (
        Decision("Keras 3 fails below Horovod and MultiWorkerMirroredStrategy", "TF_USE_LEGACY_KERAS=1 is Keras 2"),
    )


def accelerate_variables(devices: Devices, installed: frozenset[str], uses_xla: bool) -> dict[str, str]:
    """What Hugging Face's accelerate, below every Trainer, has to be told where it would guess wrong.

    Without an accelerator each rank would train a model of its own; with torch_xla in the image it would take that.
    """
    if uses_xla or devices.num_neurons:  # whose cores are reached through torch_xla
        return {}
    variables = {}
    if "torch_xla" in installed:
        variables["USE_TORCH_XLA"] = "0"
    if ("torch" in installed or not installed) and not devices.num_gpus:
        variables["ACCELERATE_USE_CPU"] = "true"
    return variables


def flight_recorder_variables(paths: Paths, run_dir: str) -> dict[str, str]:
    """NCCL's flight recorder in PyTorch: it keeps the last collectives, and dumps them on a timeout or when asked."""
    variables = {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",  # collectives
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{paths.launcher}/nccl_trace_rank_",
    }
    if can_be_made(run_dir):  # a rank that cannot make its pipe there gives up
        variables["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = f"{run_dir}/nccl_trace_rank_"
    return variables


def installed(venv: str) -> frozenset[str]:
    """The known libraries in a virtual environment; empty where there is no such environment."""
    try:
        pythons = os.listdir(f"{venv}/lib")
    except OSError:
        return frozenset()
    folders = [f"{venv}/lib/{python}/site-packages" for python in pythons]
    return frozenset(name for name in KNOWN for folder in folders if os.path.isdir(f"{folder}/{name}"))


# Left by the image's build with the reason as its text. Another Horovod, which the user installs, has no such file.
WITHOUT_NCCL = "lib/python3*/site-packages/horovod/without_nccl.py"
_IMPORT = re.compile(rb"^(import|from)[ \t]+horovod\b", re.MULTILINE)


def imported(context: Context) -> bool:
    """Whether the script imports Horovod, not only where it is there or asked for."""
    return context.script_has(_IMPORT)


def require_gpus(context: Context) -> None:
    """Raise LaunchError where Horovod would meet GPUs that it cannot use."""
    found = glob.glob(f"{glob.escape(context.venv)}/{WITHOUT_NCCL}") if context.devices.num_gpus else []
    if not found:
        return
    raise LaunchError(
        CONFIG,
        "on GPUs it would abort",
        where="Horovod of this image",
        expected="NCCL in it",
        found=_reason(found[0]),
        remedy="take an image with CUDA 12 or 13, or set CUDA_VISIBLE_DEVICES to nothing and train on the CPU",
    )


def _reason(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip().strip('"')
