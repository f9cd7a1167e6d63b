"""The platforms that images are made for: what Docker, the kernel, wheels and Debian call each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dlc.core.environment import PLATFORM, host_platform
from dlc.core.errors import HostError

# Stands for all platforms where one can be chosen.
ANY_PLATFORM = ""
# The kernel lists here which programs of other machines it hands to an interpreter such as QEMU.
INTERPRETERS = Path("/proc/sys/fs/binfmt_misc")
# The flag of an interpreter that programs in containers find too: the kernel holds it open.
FIXED = "F"
REMEDY = (
    "as root: apt-get install qemu-user-static binfmt-support (dlc help builders); or build on a host of that platform"
)


@dataclass(frozen=True)
class Platform:
    """One platform. `name` is Docker's."""

    name: str
    # The kernel's name, which wheels and uv have too.
    machine: str
    # What names of images, of lock folders and of Debian lists end with; nothing for the first platform.
    suffix: str

    @property
    def architecture(self) -> str:
        """Return Debian's name, which is the second part of Docker's."""
        return self.name.partition("/")[2]


PLATFORMS = {
    platform.name: platform
    for platform in (Platform(PLATFORM, "x86_64", ""), Platform("linux/arm64", "aarch64", "-arm64"))
}
FIRST = PLATFORMS[PLATFORM]
MACHINES = {platform.machine: platform for platform in PLATFORMS.values()}


def split_suffix(name: str) -> tuple[str, Platform]:
    """Split `bookworm-arm64` into the name without the platform's suffix, and the platform."""
    for platform in PLATFORMS.values():
        if platform.suffix and name.endswith(platform.suffix):
            return name.removesuffix(platform.suffix), platform
    return name, FIRST


def runs_here(wanted: str, interpreters: Path = INTERPRETERS) -> bool:
    """Tell whether this host runs programs of a platform: its own, or one that the kernel has an interpreter for."""
    return host_platform() == wanted or any(
        _is_interpreter_of(PLATFORMS[wanted], file) for file in interpreters.glob("*")
    )


def require_runs_here(wanted: str) -> None:
    """Raise HostError if this host cannot run programs of a platform, which making images for it takes."""
    if not runs_here(wanted):
        raise HostError(
            f"this host: expected {wanted}, or QEMU that runs its programs in containers, "
            f"found {host_platform()} without",
            REMEDY,
        )


def _is_interpreter_of(platform: Platform, file: Path) -> bool:
    try:
        said = file.read_text(errors="replace").splitlines() if platform.machine in file.name else []
    except OSError:
        return False
    return "enabled" in said and any(line.startswith("flags:") and FIXED in line for line in said)
