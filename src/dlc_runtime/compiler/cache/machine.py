"""The key of code that was compiled: image, processor and GPU. Code of another key is not loaded."""

from __future__ import annotations

import hashlib
import os
import platform
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CPUINFO = "/proc/cpuinfo"
GPUS = "/proc/driver/nvidia/gpus"
FEATURES = ("flags", "Features", "model name")
DIGITS = 12


def key_of(environ: Mapping[str, str]) -> str:
    """Return image, architecture, CPU and GPU, such as `3f2a91c04d5e-x86_64-0c1d2e3f4a5b-cpu`.

    The image is its content key; outside an image it is a digest of this Python and the torch that it imports.
    """
    torch = sys.modules.get("torch")
    known = environ.get("DLC_CONTENT_KEY", "")
    image = known[:DIGITS] or digest(f"{sys.version} {getattr(torch, '__version__', '')}")
    return "-".join((image, platform.machine(), digest(cpu_features()), gpu_model()))


def cpu_features() -> str:
    """Return the lines of one processor that say what code it can run."""
    first = read_text(CPUINFO).split("\n\n")[0].splitlines()
    return "\n".join(line for line in first if line.partition(":")[0].strip() in FEATURES)


def gpu_model() -> str:
    """Return the GPU's model, read without CUDA, which a process may not start before it forks."""
    try:
        folders = sorted(os.listdir(GPUS))
    except OSError:
        return "cpu"
    models = {
        line.partition(":")[2].strip()
        for name in folders
        for line in read_text(os.path.join(GPUS, name, "information")).splitlines()
        if line.startswith("Model:")
    }
    return digest(" ".join(sorted(models))) if models else "cpu"


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
