"""The CUDA and EFA settings of an image: checked, with the driver and the Debian packages that they need."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dlc.buildspec.models import Efa, Settings
from dlc.checked_yaml.problems import Problem
from dlc.checked_yaml.yaml_layers import Node

CPU = "cpu"
# What all frameworks for one CUDA can take in the same version: a layer of its own, which their images share.
# cuDNN and NCCL are not among them: they have releases of their own, and each framework asks for another one.
SHARED_PACKAGES = re.compile(
    r"nvidia-(cublas|cuda-cupti|cuda-nvrtc|cuda-runtime|cufft|curand|cusolver|cusparse|nvjitlink)(-cu\d+)?"
)
# What each setting must contain, if the source needs it.
EFA_MEANINGS = {
    "version": "the installer's release, such as 1.50.0: compat.yml has rules about it",
    "url": "the address of the vendor's .tar.gz",
    "sha256": "its sha256, 64 hexadecimal digits",
}
EFA_NEEDED = {
    "none": (),
    "distro": (),
    "installer": ("version", "url", "sha256"),
}  # fmt: skip


def device_major(device: str) -> int:
    """Return the CUDA major of a device: 12 for cu128, 0 without CUDA."""
    return 0 if device == CPU else int(device.removeprefix("cu")[:-1])


def build_packages(settings: Settings) -> tuple[str, ...]:
    """Return the Debian packages that are there only while something is compiled, for the image's CUDA too."""
    return (*settings.build_packages, *settings.cuda_build_packages.get(str(device_major(settings.device)), ()))


def shared_packages(packages: Iterable[str]) -> list[str]:
    """Pick the packages, by their normal names, that go into the layer that images of one CUDA share."""
    return [name for name in packages if SHARED_PACKAGES.fullmatch(name)]


def make_cuda_requirement(settings: Settings) -> str:
    """Return the value of NVIDIA_REQUIRE_CUDA, by which the container runtime refuses hosts; empty without CUDA.

    By major version only: a driver runs all minor versions of its major. With a newer user library, one less.
    """
    version = device_major(settings.device)
    oldest = version - 1 if settings.cuda_compat.url else version
    return f"cuda>={oldest}.0" if version else ""


def check_cuda(settings: Settings, node: Node) -> list[Problem]:
    """Return a problem if the newer user library is half named, or has no CUDA to go with."""
    wanted = settings.cuda_compat
    values = {"url": wanted.url, "sha256": wanted.sha256}
    given = [name for name, value in values.items() if value]
    if not given:
        return []
    mark = (node.at(("cuda_compat", given[0])) or node).mark
    lacking = [
        Problem(mark, f"cuda_compat.{name}", "the address of NVIDIA's package and its sha256, or neither", "nothing")
        for name in values
        if name not in given
    ]
    if settings.device == CPU:
        lacking.append(Problem(mark, "cuda_compat", "an image with CUDA (device: cu...)", f"device {CPU}"))
    return lacking


def check_efa(efa: Efa, node: Node) -> list[Problem]:
    """Return a problem for each setting that the image's source of EFA software needs and that is empty."""
    mark = (node.at(("efa", "source")) or node).mark
    return [
        Problem(mark, f"efa.{name}", f"{EFA_MEANINGS[name]} (efa.source is {efa.source})", "nothing")
        for name in EFA_NEEDED[efa.source]
        if not getattr(efa, name)
    ]


def efa_packages(efa: Efa) -> tuple[str, ...]:
    """Return the Debian packages that EFA adds to an image. The installer has newer ones of its own."""
    return efa.os_packages if efa.source == "distro" else ()
