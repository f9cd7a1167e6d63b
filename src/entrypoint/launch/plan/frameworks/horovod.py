"""Horovod: whether a script imports it, and whether it can use the GPUs of this host."""

from __future__ import annotations

import glob

from launch.base.errors import CONFIG, LaunchError
from launch.plan.context import Context
from launch.plan.frameworks import Framework

# Left by the image's build with the reason as its text. Another Horovod, which the user installs, has no such file.
WITHOUT_NCCL = "lib/python3*/site-packages/horovod/without_nccl.py"
_IMPORT = rb"^(import|from)[ \t]+horovod\b"


def imports_horovod(context: Context) -> bool:
    """Return whether the script imports Horovod, not only if it is there or asked for."""
    return context.script_has(_IMPORT)


def require_gpus(context: Context) -> None:
    """Raise LaunchError if Horovod would meet GPUs that it cannot use."""
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


ROW = Framework("Horovod")
