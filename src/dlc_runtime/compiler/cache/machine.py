"""What compiled code depends on besides the model: image, CPU features, GPU. It names a cache's subfolder."""

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


def key(environ: Mapping[str, str]) -> str:
    """Such as `3f2a91c04d5e-x86_64-0c1d2e3f4a5b-cpu`: image, architecture, CPU, GPU."""
    return "-".join((image(environ), platform.machine(), digest(cpu()), gpu()))


def image(environ: Mapping[str, str]) -> str:
    """The image's content key; outside an image, this Python and the torch that it imports."""
    known = environ.get("DLC_CONTENT_KEY", "")
    torch = sys.modules.get("torch")
    return known[:DIGITS] or digest(f"{sys.version} {getattr(torch, '__version__', '')}")


def cpu() -> str:
    """The lines of one processor that say what code it can run."""
    return "\n".join(line for line in first_block(read(CPUINFO)) if line.partition(":")[0].strip() in FEATURES)


def first_block(text: str) -> list[str]:
    return text.split("\n\n")[0].splitlines()


def gpu() -> str:
    """The GPU's model: read without CUDA, which a process may not start before it forks."""
    try:
        folders = sorted(os.listdir(GPUS))
    except OSError:
        return "cpu"
    texts = (read(os.path.join(GPUS, name, "information")) for name in folders)
    models = {line.partition(":")[2].strip() for text in texts for line in text.splitlines() if line[:6] == "Model:"}
    return digest(" ".join(sorted(models))) if models else "cpu"


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
