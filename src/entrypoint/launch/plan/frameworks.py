"""Which libraries the image holds, by looking at folder names: importing one would take seconds."""

from __future__ import annotations

import os

from launch.discovery.devices import Devices

KNOWN = ("torch", "torch_xla", "tensorflow", "horovod", "mpi4py")


def framework_variables(installed: frozenset[str], region: str) -> dict[str, str]:
    """What the platform's TensorFlow toolkit sets in its images, where the user did not."""
    if "tensorflow" not in installed:
        return {}
    return {"TF_CPP_MIN_LOG_LEVEL": "1", "S3_REGION": region, "S3_USE_HTTPS": "1"}


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


def installed(venv: str) -> frozenset[str]:
    """The known libraries in a virtual environment; empty where there is no such environment."""
    try:
        pythons = os.listdir(f"{venv}/lib")
    except OSError:
        return frozenset()
    folders = [f"{venv}/lib/{python}/site-packages" for python in pythons]
    return frozenset(name for name in KNOWN for folder in folders if os.path.isdir(f"{folder}/{name}"))
