"""The hardware of this host, read from /dev, /proc and /sys; never from an instance type's name."""

from __future__ import annotations

import os
import re

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.settings import read_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


AMAZON_PCI_VENDOR = "0x1d0f"
# The first generation; later ones (0xefa1, ...) read remote memory
EFA_WITHOUT_RDMA = "0xefa0"
# Of the first generation, whose driver does not tell
CORES_OF_A_NEURON_DEVICE = 2


class Devices(NamedTuple):
    """What this host computes and talks with."""

    num_cpus: int
    # What the cgroup and the affinity mask leave of them, at least 1
    usable_cpus: int
    num_gpus: int = 0
    # Cores, not devices
    num_neurons: int = 0
    efa: bool = False
    efa_rdma: bool = False
    # An RDMA device that is not EFA
    infiniband: bool = False
    # Network interfaces that exist
    interfaces: tuple[str, ...] = ()

    @property
    def accelerators(self) -> int:
        """Return the processes per host of a job that does not say how many: GPUs, else Neuron cores, else 1."""
        return self.num_gpus or self.num_neurons or 1


def detect_devices(environ: Mapping[str, str], root: str = "/") -> Devices:
    """Detect the devices below `root` that DLC_NUM_GPUS, DLC_NUM_CPUS, DLC_NUM_NEURONS and DLC_EFA do not state.

    Raises LaunchError if one of those is not what it has to be.
    """
    stated_cpus = _count_devices(environ, "DLC_NUM_CPUS")
    stated_gpus = _count_devices(environ, "DLC_NUM_GPUS")
    stated_neurons = _count_devices(environ, "DLC_NUM_NEURONS")
    efa, efa_rdma, infiniband = _find_fabric(environ, root)
    num_cpus = os.cpu_count() or 1 if stated_cpus is None else max(1, stated_cpus)
    return Devices(
        num_cpus=num_cpus,
        usable_cpus=num_cpus if stated_cpus is not None else min(num_cpus, _usable_cpus(root)),
        num_gpus=_visible_gpus(environ, root) if stated_gpus is None else stated_gpus,
        num_neurons=_neuron_cores(root) if stated_neurons is None else stated_neurons,
        efa=efa,
        efa_rdma=efa_rdma,
        infiniband=infiniband,
        interfaces=tuple(_list_names(root, "sys/class/net")),
    )


def find_interface(host: str, interfaces: Iterable[str]) -> str:
    """Return which interface has the address by which the job knows this host; "" if none but loopback has it."""
    # Most jobs name an interface that is there
    from launch.discovery import host_addresses

    named = host_addresses.own_addresses(host, "")
    others = (name for name in interfaces if name != "lo")
    return next((name for name in others if not set(named).isdisjoint(host_addresses.interface_addresses(name))), "")


def _count_devices(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise LaunchError(CONFIG, "how many there are", where=name, expected="a number", found=shown(text))
    return int(text)


def _visible_gpus(environ: Mapping[str, str], root: str) -> int:
    # /dev holds what this container was given; /proc/driver/nvidia may list all of the machine.
    count = sum(1 for name in _list_names(root, "dev") if re.fullmatch(r"nvidia\d+", name))
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None or not count:
        return count
    # CUDA reads up to the first entry that names no device.
    visible = 0
    for entry in listed.split(","):
        if not re.fullmatch(r"\d+|(GPU|MIG)-.+", entry.strip()):
            break
        visible += 1
    return min(visible, count)


def _neuron_cores(root: str) -> int:
    devices = [name for name in _list_names(root, "dev") if re.fullmatch(r"neuron\d+", name)]
    told = [_first_line(root, f"sys/devices/virtual/neuron_device/{name}/core_count") for name in devices]
    return sum(int(text) if re.fullmatch(r"[0-9]{1,4}", text) else CORES_OF_A_NEURON_DEVICE for text in told)


def _find_fabric(environ: Mapping[str, str], root: str) -> tuple[bool, bool, bool]:
    """Return whether there is EFA, EFA that reads remote memory, another RDMA device."""
    adapters = [
        (_first_line(root, f"sys/class/infiniband/{name}/device/vendor"), name)
        for name in _list_names(root, "sys/class/infiniband")
    ]
    efa = [name for vendor, name in adapters if vendor == AMAZON_PCI_VENDOR]
    rdma = any(_first_line(root, f"sys/class/infiniband/{name}/device/device") != EFA_WITHOUT_RDMA for name in efa)
    # Without its node in /dev/infiniband a device is seen but cannot be opened; preflight says so.
    usable = bool(_list_names(root, "dev/infiniband"))
    stated = read_choice(environ, "DLC_EFA")
    if stated is not None:
        return stated, stated, len(adapters) > len(efa) and usable
    return bool(efa) and usable, rdma and usable, len(adapters) > len(efa) and usable


def _usable_cpus(root: str) -> int:
    allowed = len(os.sched_getaffinity(0))
    quota, _, period = _first_line(root, "sys/fs/cgroup/cpu.max").partition(" ")
    # Cgroup v1
    if not quota:
        quota = _first_line(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = _first_line(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period):
        allowed = min(allowed, -(-int(quota) // int(period)))
    return max(1, allowed)


def _list_names(root: str, folder: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root, folder)))
    except OSError:
        return []


def _first_line(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
