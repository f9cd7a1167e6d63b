"""The GPUs of this host in words: what they are, whether the image fits the driver, what NCCL has to talk with."""

from __future__ import annotations

import contextlib

from launch.base.compat import NamedTuple
from launch.base.paths import DEFAULT_VENV, stated_folder
from launch.plan.network import network_variables
from launch.preflight import host_checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from launch.discovery.devices import Devices
    from launch.plan.request import Request


# For nvidia-smi, which waits for a driver that hangs
SECONDS = 3.0
# From its kill to its end
ENDS_SECONDS = 1.0
# Drivers before 510 do not know the last one
FIELDS = ("name", "memory.total", "driver_version", "compute_cap")


class Gpu(NamedTuple):
    """One of them; what the driver does not tell is 0 or ""."""

    name: str
    memory_mib: int = 0
    compute_capability: str = ""

    def __str__(self) -> str:
        memory = f", {self.memory_mib / 1024:.0f} GiB" if self.memory_mib else ""
        capability = f", compute capability {self.compute_capability}" if self.compute_capability else ""
        return f"{self.name}{memory}{capability}"


class Gpus(NamedTuple):
    """All that this container sees."""

    gpus: tuple[Gpu, ...]
    driver: str
    # 0: the image holds none, or holds it in no place that is known
    image_cuda: int
    # None: there is nothing to compare
    image_fits: bool | None
    # "" for a job of one process
    nccl: str

    def as_data(self) -> dict[str, Any]:
        """Return it for --explain=json."""
        return {**self._asdict(), "gpus": [gpu._asdict() for gpu in self.gpus]}

    def lines(self) -> list[str]:
        """Return it for the log and for --explain."""
        counted = {gpu: self.gpus.count(gpu) for gpu in self.gpus}
        each = "; ".join(f"{count} x {gpu}" for gpu, count in counted.items()) or "unknown"
        found = f"GPUs: {each}; driver {self.driver or 'unknown'}{self._fit()}"
        return [found, f"NCCL: {self.nccl}"] if self.nccl else [found]

    def _fit(self) -> str:
        if self.image_fits is None:
            return ""
        return f", {'fits' if self.image_fits else 'too old for'} the image's CUDA {self.image_cuda}"


def describe_gpus(request: Request, root: str = "/") -> Gpus | None:
    """Describe this host's GPUs; None if there is no NVIDIA driver. `root` relocates /proc and libraries."""
    if not request.devices.num_gpus:
        return None
    told = _ask_driver(request.environ)
    gpus = tuple(_parse_gpu(fields) for fields in told) or tuple(Gpu(name) for name in host_checks.nvidia_models(root))
    driver = told[0][2] if told else host_checks.nvidia_driver(root)
    if not (gpus or driver):
        return None
    venv = stated_folder(request.environ, "DLC_VENV", DEFAULT_VENV)
    cuda = host_checks.image_cuda(venv)
    fits = not host_checks.is_too_old(driver, cuda, root) if driver[:1].isdigit() and cuda else None
    return Gpus(gpus, driver, cuda, fits, _describe_nccl(request))


def _ask_driver(environ: Mapping[str, str]) -> list[list[str]]:
    for fields in (FIELDS, FIELDS[:-1]):
        text = _run_nvidia_smi(fields, environ)
        if text is None:
            # A driver that hangs would hang again
            break
        rows = parse_answer(text, len(fields))
        if rows:
            return rows
    return []


def parse_answer(text: str, fields: int) -> list[list[str]]:
    """Return the rows that nvidia-smi printed; its messages have another number of fields."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == fields]


def _parse_gpu(fields: list[str]) -> Gpu:
    # "[N/A]" of a part of a GPU (MIG)
    memory = int(fields[1]) if fields[1].isdigit() else 0
    capability = fields[3] if len(fields) > 3 and fields[3][:1].isdigit() else ""
    return Gpu(fields[0], memory, capability)


def _run_nvidia_smi(fields: Iterable[str], environ: Mapping[str, str]) -> str | None:
    """Return what nvidia-smi prints; "" if there is none or it fails, None if it does not answer in time."""
    # A host without GPUs has no use for it
    import subprocess

    argv = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        child = subprocess.Popen(
            argv, env=dict(environ), text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return ""
    try:
        text = child.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        # A process that the driver holds ends later
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(ENDS_SECONDS)
        if child.stdout:
            child.stdout.close()
        return None
    return "" if child.returncode else str(text)


def _describe_nccl(request: Request) -> str:
    """Say what NCCL has to talk with. What it takes is its own choice, which it prints with NCCL_DEBUG=INFO."""
    if not request.strategy:
        return ""
    cluster, devices = request.cluster, request.devices
    variables = network_variables(cluster, devices)
    settings = {**variables, **{name: value for name, value in request.environ.items() if name.startswith("NCCL_")}}
    shown = ", ".join(f"{name}={settings[name]}" for name in sorted(settings) if name.startswith(("NCCL_", "FI_")))
    between = f"{_describe_fabric(devices)} between hosts" if len(request.hosts) > 1 else "one host"
    return f"{between}; {shown}; NCCL_DEBUG=INFO makes it print what it chose"


def _describe_fabric(devices: Devices) -> str:
    if devices.efa:
        return "EFA with RDMA" if devices.efa_rdma else "EFA"
    return "InfiniBand" if devices.infiniband else "TCP"
