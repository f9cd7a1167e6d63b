"""Installs the Debian packages of a Docker engine with buildx and compose.

Debian 12's docker.io has no buildx, so there the four Docker packages come from Debian 13: they need only
libc6 >= 2.34.
"""

from __future__ import annotations

from dlc.core.environment import cache_folder
from dlc.debian import apt

DOCKER_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "docker-compose", "iptables")
UBUNTU_PACKAGES = ("docker.io", "docker-buildx", "docker-compose-v2", "iptables")
DONOR = apt.Donor(release="bookworm", suite="trixie", packages=DOCKER_PACKAGES[:4])


def names() -> tuple[str, ...]:
    """What these packages are called in this host's distribution."""
    return UBUNTU_PACKAGES if apt.os_release().get("ID") == "ubuntu" else DOCKER_PACKAGES


def install() -> None:
    """Install them without starting a daemon. Raises HostError, PackageIndexError."""
    apt.install(names(), cache_folder() / "apt", DONOR)
