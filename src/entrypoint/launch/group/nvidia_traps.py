"""Traps of NVIDIA's driver: one too old for the image's CUDA, and GPUs that it has lost."""

from __future__ import annotations

import os
import re

from launch.group.traps import Finding

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}  # by the image's CUDA; NVIDIA's minor version compatibility
COMPAT = "usr/local/cuda/compat/libcuda.so.1"  # brings a newer user-mode driver along
_RUNTIME = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?-(\d+)\.")


def find(root: str, venv: str) -> list[Finding]:
    """What would leave this host's GPUs idle. `root` relocates /proc and /dev."""
    found = [_old_driver(root, venv), *_lost_gpus(root)]
    return [finding for finding in found if finding]


def image_cuda(venv: str) -> int:
    """The major version of the CUDA runtime that the image's wheels brought along, 0 for none."""
    for python in _names(f"{venv}/lib"):
        for name in _names(f"{venv}/lib/{python}/site-packages"):
            match = _RUNTIME.match(name)
            if match:
                return int(match[1])
    return 0


def driver(root: str) -> str:
    """The driver's version, such as 535.183.01; "" where there is none."""
    match = re.search(r"Kernel Module\b.*?\s(\d{3,4}(?:\.\d+)+)\s", _text(f"{root}/proc/driver/nvidia/version"))
    return match[1] if match else ""


def is_too_old(version: str, cuda: int, root: str) -> bool:
    """Whether a driver cannot run the image's CUDA, and the image brings no newer part of a driver along."""
    major = version.partition(".")[0]
    return int(major) < OLDEST_DRIVER.get(cuda, 0) and not os.path.exists(f"{root}/{COMPAT}")


def models(root: str) -> list[str]:
    """The names of the GPUs that the driver lists."""
    folder = f"{root}/proc/driver/nvidia/gpus"
    found = (re.search(r"Model:\s*(.*\S)", _text(f"{folder}/{name}/information")) for name in _names(folder))
    return [match[1] for match in found if match]


def _old_driver(root: str, venv: str) -> Finding | None:
    version, cuda = driver(root), image_cuda(venv)
    if not version or not is_too_old(version, cuda, root):
        return None
    return Finding(
        f"the host's NVIDIA driver is {version}, the image's CUDA {cuda} needs {OLDEST_DRIVER[cuda]} or newer: "
        "training would use the CPU",
        f"update the host's driver, or use an image of CUDA {_usable(version)}",
        is_error=True,
    )


def _usable(version: str) -> str:
    major = int(version.partition(".")[0])
    return " or ".join(str(cuda) for cuda, oldest in OLDEST_DRIVER.items() if major >= oldest) or "an older release"


def _lost_gpus(root: str) -> list[Finding]:
    """GPUs whose device files are there, but which the driver does not list (any more), or excludes."""
    folder = f"{root}/proc/driver/nvidia/gpus"
    known: dict[str, str] = {}
    for name in _names(folder):
        text = _text(f"{folder}/{name}/information")
        minor = re.search(r"Device Minor:\s*(\d+)", text)
        if minor:
            known[minor[1]] = text
    if not known:  # some drivers of virtual machines list nothing
        return []
    given = [name[len("nvidia") :] for name in _names(f"{root}/dev") if re.fullmatch(r"nvidia\d+", name)]
    lost = [
        minor for minor in given if minor not in known or re.search(r"GPU Excluded:\s*Yes", known[minor], re.IGNORECASE)
    ]
    return [
        Finding(
            f"GPU {minor} (/dev/nvidia{minor}) does not answer: the driver does not list it as usable",
            "look for Xid errors in the host's dmesg, reset or replace the GPU, or leave it out of the container",
            is_error=True,
        )
        for minor in lost
    ]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
