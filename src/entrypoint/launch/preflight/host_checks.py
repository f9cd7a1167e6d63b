"""What lets a job start here and then fail or crawl, with remedies: /dev/shm, devices, limits, NVIDIA's driver."""

from __future__ import annotations

import os
import re
import resource

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import DEFAULT_VENV, Paths
from launch.base.settings import warns_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from launch.discovery.cluster import Cluster
    from launch.discovery.devices import Devices


# Docker's default is 64 MiB, one batch of images and NCCL's buffers take more
SMALL_SHM_BYTES = 1 << 30
# Descriptors; every pair of ranks and every data-loading worker takes some
SMALL_NOFILE = 4096
# A checkpoint of a small model with its optimizer's state
LITTLE_ROOM_BYTES = 1 << 30
AMAZON_VENDOR = "0x1d0f"
# What NCCL loads if NCCL_NET_PLUGIN names nothing else
PLUGIN = "libnccl-net.so"
MORE_SHM = "start the container with --shm-size=8g or --ipc=host"


class HostFinding(NamedTuple):
    """Something that is wrong, or will be."""

    what: str
    remedy: str
    # The job cannot work with it; otherwise it may
    is_error: bool = False

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def check_host(
    devices: Devices, cluster: Cluster, environ: Mapping[str, str], root: str = "/", is_distributed: bool = False
) -> list[HostFinding]:
    """Return every problem of this host. `root` relocates /dev, /proc, /sys and the image's libraries.

    `is_distributed`: several processes talk to each other, on this host alone too.
    """
    multi_host = len(cluster.hosts) > 1
    found = [
        # Who fails in it is NCCL
        _check_shared_memory(root) if devices.num_gpus else None,
        _check_rdma_nodes(root),
        _check_locked_memory(devices),
        _check_efa_plugin(root, devices, environ) if multi_host else None,
        _check_gpu_nodes(root, devices),
        _check_open_files(),
        _check_interface(cluster, devices) if multi_host or is_distributed else None,
        *_check_disks(environ),
        *_check_nvidia(root, environ),
    ]
    return [finding for finding in found if finding]


def refuse_errors(findings: list[HostFinding], environ: Mapping[str, str]) -> None:
    """Raise LaunchError (CONFIG) for the first thing that the job cannot work with, unless DLC_PREFLIGHT is warn."""
    fatal = [finding for finding in findings if finding.is_error]
    if fatal and not warns_only(environ, "DLC_PREFLIGHT"):
        first = fatal[0]
        raise LaunchError(CONFIG, first.what, where="preflight", remedy=f"{first.remedy} (DLC_PREFLIGHT=warn goes on)")


def _check_disks(environ: Mapping[str, str]) -> list[HostFinding]:
    """Find disks that a checkpoint would fill. Folders of one disk are named together."""
    paths = Paths.of(environ)
    short: dict[tuple[int, int], list[str]] = {}
    for folder in (paths.model, paths.output, f"{paths.base}/checkpoints", "/tmp"):  # noqa: S108 (a question only)
        try:
            space, device = os.statvfs(folder), os.stat(folder).st_dev
        except OSError:
            continue
        free = space.f_frsize * space.f_bavail
        if free < LITTLE_ROOM_BYTES:
            short.setdefault((device, free >> 20), []).append(folder)
    return [
        HostFinding(
            f"{free} MiB are free on {', '.join(folders)}: a checkpoint may not fit",
            "free space or give the container or the job a larger volume",
        )
        for (_device, free), folders in short.items()
    ]


def _check_nvidia(root: str, environ: Mapping[str, str]) -> list[HostFinding]:
    if not os.path.exists(os.path.join(root, "proc/driver/nvidia/version")):
        return []
    if not any(name.startswith("nvidia") for name in _list_names(root, "dev")):
        # The machine's GPUs are not this container's
        return []

    return check_nvidia(root, environ.get("DLC_VENV") or DEFAULT_VENV)


def _check_shared_memory(root: str) -> HostFinding | None:
    try:
        space = os.statvfs(os.path.join(root, "dev/shm"))
    except OSError:
        return HostFinding("there is no shared memory (/dev/shm)", MORE_SHM)
    size = space.f_frsize * space.f_blocks
    if size >= SMALL_SHM_BYTES:
        return None
    return HostFinding(
        f"shared memory (/dev/shm) is {size >> 20} MiB: data-loading workers and NCCL fail when it is full",
        MORE_SHM,
    )


def _check_rdma_nodes(root: str) -> HostFinding | None:
    adapters = _list_names(root, "sys/class/infiniband")
    if not adapters or _list_names(root, "dev/infiniband"):
        return None
    vendors = [_read_text(root, f"sys/class/infiniband/{name}/device/vendor") for name in adapters]
    kind = "EFA" if AMAZON_VENDOR in vendors else "RDMA"
    return HostFinding(
        f"{kind} adapter {', '.join(adapters)} is on this machine, but the container has no /dev/infiniband: "
        "NCCL will use TCP",
        "start the container with --device=/dev/infiniband (and --ulimit memlock=-1)",
    )


def _check_locked_memory(devices: Devices) -> HostFinding | None:
    if not (devices.efa or devices.infiniband):
        return None
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return HostFinding(
        f"at most {limit >> 10} KiB of memory can be locked: registering buffers with the RDMA adapter will fail",
        "start the container with --ulimit memlock=-1",
    )


def _check_efa_plugin(root: str, devices: Devices, environ: Mapping[str, str]) -> HostFinding | None:
    """Look for NCCL's plug-in where the loader does: without it NCCL says nothing and is slower by a factor."""
    if not (devices.efa and devices.num_gpus) or environ.get("NCCL_NET_PLUGIN"):
        return None
    own = ("/usr/local/lib", f"/usr/lib/{os.uname().machine}-linux-gnu", "/usr/lib")
    folders = (*environ.get("LD_LIBRARY_PATH", "").split(":"), *own)
    if any(os.path.exists(os.path.join(root, folder.lstrip("/"), PLUGIN)) for folder in folders if folder):
        return None
    return HostFinding(
        f"this machine has EFA, but the image has no plug-in of NCCL for it ({PLUGIN}): NCCL will use TCP",
        "build the image with efa.source=installer",
    )


def _check_gpu_nodes(root: str, devices: Devices) -> HostFinding | None:
    gpus = _list_names(root, "proc/driver/nvidia/gpus")
    if not gpus or devices.num_gpus or any(name.startswith("nvidia") for name in _list_names(root, "dev")):
        return None
    return HostFinding(
        f"this machine has {len(gpus)} NVIDIA GPU(s), but the container was given none: training will use the CPU",
        "start the container with --gpus all",
    )


def _check_open_files() -> HostFinding | None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY or limit >= SMALL_NOFILE:
        return None
    return HostFinding(
        f"a process can open {limit} files: many ranks and data-loading workers need more",
        "start the container with --ulimit nofile=65536",
    )


def _check_interface(cluster: Cluster, devices: Devices) -> HostFinding | None:
    name = cluster.network_interface
    if not devices.interfaces or name in devices.interfaces:
        return None
    return HostFinding(
        f"there is no network interface {name}; there are {', '.join(devices.interfaces)}",
        "correct network_interface_name in resourceconfig.json, or set DLC_NETWORK_INTERFACE or NCCL_SOCKET_IFNAME",
    )


def _list_names(root: str, folder: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root, folder)))
    except OSError:
        return []


def _read_text(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


# By the image's CUDA; NVIDIA's minor version compatibility
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
# Brings a newer user-mode driver along
COMPAT = "usr/local/cuda/compat/libcuda.so.1"
_RUNTIME = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?-(\d+)\.")


def check_nvidia(root: str, venv: str) -> list[HostFinding]:
    """Return what would leave this host's GPUs idle. `root` relocates /proc and /dev."""
    found = [_check_driver(root, venv), *_check_lost_gpus(root)]
    return [finding for finding in found if finding]


def image_cuda(venv: str) -> int:
    """Return the major version of the CUDA runtime that the image's wheels brought along, 0 for none."""
    for python in _list_entries(f"{venv}/lib"):
        for name in _list_entries(f"{venv}/lib/{python}/site-packages"):
            match = _RUNTIME.match(name)
            if match:
                return int(match[1])
    return 0


def nvidia_driver(root: str) -> str:
    """Return the driver's version, such as 535.183.01; "" if there is none."""
    match = re.search(r"Kernel Module\b.*?\s(\d{3,4}(?:\.\d+)+)\s", _read_content(f"{root}/proc/driver/nvidia/version"))
    return match[1] if match else ""


def is_too_old(version: str, cuda: int, root: str) -> bool:
    """Return whether a driver cannot run the image's CUDA, and the image brings no newer part of a driver along."""
    major = version.partition(".")[0]
    return int(major) < OLDEST_DRIVER.get(cuda, 0) and not os.path.exists(f"{root}/{COMPAT}")


def nvidia_models(root: str) -> list[str]:
    """Return the names of the GPUs that the driver lists."""
    folder = f"{root}/proc/driver/nvidia/gpus"
    found = (
        re.search(r"Model:\s*(.*\S)", _read_content(f"{folder}/{name}/information")) for name in _list_entries(folder)
    )
    return [match[1] for match in found if match]


def _check_driver(root: str, venv: str) -> HostFinding | None:
    version, cuda = nvidia_driver(root), image_cuda(venv)
    if not version or not is_too_old(version, cuda, root):
        return None
    return HostFinding(
        f"the host's NVIDIA driver is {version}, the image's CUDA {cuda} needs {OLDEST_DRIVER[cuda]} or newer: "
        "training would use the CPU",
        f"update the host's driver, or use an image of CUDA {_usable_cuda(version)}",
        is_error=True,
    )


def _usable_cuda(version: str) -> str:
    major = int(version.partition(".")[0])
    return " or ".join(str(cuda) for cuda, oldest in OLDEST_DRIVER.items() if major >= oldest) or "an older release"


def _check_lost_gpus(root: str) -> list[HostFinding]:
    """Find GPUs whose device files are there, but which the driver does not list (any more), or excludes."""
    folder = f"{root}/proc/driver/nvidia/gpus"
    known: dict[str, str] = {}
    for name in _list_entries(folder):
        text = _read_content(f"{folder}/{name}/information")
        minor = re.search(r"Device Minor:\s*(\d+)", text)
        if minor:
            known[minor[1]] = text
    # Some drivers of virtual machines list nothing
    if not known:
        return []
    given = [name[len("nvidia") :] for name in _list_entries(f"{root}/dev") if re.fullmatch(r"nvidia\d+", name)]
    lost = [
        minor for minor in given if minor not in known or re.search(r"GPU Excluded:\s*Yes", known[minor], re.IGNORECASE)
    ]
    return [
        HostFinding(
            f"GPU {minor} (/dev/nvidia{minor}) does not answer: the driver does not list it as usable",
            "look for Xid errors in the host's dmesg, reset or replace the GPU, or leave it out of the container",
            is_error=True,
        )
        for minor in lost
    ]


def _list_entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read_content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
