"""For which GPUs an image holds code, read from the binaries of its framework and of cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.engine.docker_client import Engine
from dlc.inspection.facts import run_probe

PROBE = Path(__file__).with_name("gpu_probe.py")
# Compute capability, as 10 * major + minor, of GPUs that training hosts have. Source: NVIDIA's table "CUDA GPUs".
GPUS = {
    "K80": 37, "P100": 60, "V100": 70, "T4": 75, "A100": 80, "A10G": 86, "L4": 89, "L40S": 89, "H100": 90, "H200": 90,
    "B200": 100, "B300": 103, "RTX PRO 6000": 120,
}  # fmt: skip


@dataclass(frozen=True)
class GpuCode:
    """Compute capabilities, as 10 * major + minor: of the framework's machine code and PTX, of cuDNN's machine code."""

    machine: tuple[int, ...]
    ptx: tuple[int, ...]
    cudnn: tuple[int, ...] = ()

    def support(self, capability: int) -> str:
        """Return `yes`; `PTX`, which the driver compiles at the first start; or `no`.

        Machine code runs on its own capability and later minor ones of the same major, PTX on all later ones. A GPU
        that is older than all code of cuDNN computes no convolution.
        """
        if self.cudnn and capability < self.cudnn[0]:
            return "no"
        if any(own // 10 == capability // 10 and own <= capability for own in self.machine):
            return "yes"
        return "PTX" if any(own <= capability for own in self.ptx) else "no"


def read_gpu_code(engine: Engine, ref: str) -> GpuCode:
    """Read a built image; both are empty for one without CUDA. Raises ImageError if no Python in it answers."""
    probed = run_probe(engine, ref, PROBE)
    return GpuCode(tuple(probed["machine"]), tuple(probed["ptx"]), tuple(probed["cudnn"]))


def make_gpu_row(image: str, code: GpuCode | None) -> dict[str, str]:
    """Make an image's line of the table: its code, then every GPU. `code` is None for an image that is not built."""
    if code is None:
        return {"id": image, "machine code": "not built", "ptx": "-", "cuDNN": "-", **dict.fromkeys(GPUS, "-")}
    own = {
        "machine code": _join_capabilities(code.machine),
        "ptx": _join_capabilities(code.ptx),
        "cuDNN": f"from {_join_capabilities(code.cudnn[:1])}" if code.cudnn else "-",
    }
    return {"id": image, **own, **{name: code.support(capability) for name, capability in GPUS.items()}}


def _join_capabilities(capabilities: Sequence[int]) -> str:
    return ",".join(f"{value // 10}.{value % 10}" for value in capabilities) or "none"
