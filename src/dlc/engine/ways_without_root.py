"""Which ways to a Docker engine are open on this host to a user who is not root, and what closes the others."""

from __future__ import annotations

import grp
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SETUP = "dockerd-rootless-setuptool.sh"
# The kernel's bound, and who may use which numbers of users.
NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
RANGES = Path("/etc/subuid")
# Distributions let their members use sudo.
ADMINISTRATORS = ("sudo", "wheel", "admin")
WITH_BUILDX = "with its buildx plug-in"


@dataclass(frozen=True)
class Way:
    """What a user does to get an engine. `obstacle` is why it does not work here; empty if nothing is known."""

    action: str
    obstacle: str = ""


def find_ways(user: str, group: str, *, can_start: bool) -> list[Way]:
    """Return all ways of a user; `can_start`: dlc as root could start an engine of its own. Reads, and runs nothing."""
    forbidden = _find_sudo_obstacle()
    installed = _has_group(group)
    join = f"sudo usermod -aG {group} {user}, and log in again"
    ways = [
        Way(_describe_rootless(), _find_rootless_obstacle(user)),
        Way(join if installed else f"install Docker Engine {WITH_BUILDX}, then: {join}", forbidden),
    ]
    if can_start:
        ways.append(Way("run dlc with sudo, which starts one that only root can use", forbidden))
    return [*ways, Way("set DOCKER_HOST to one that runs")]


def describe_ways(ways: Sequence[Way]) -> str:
    """Return the open ways, then those that are closed here with the reason of each."""
    open_ways = "; or ".join(way.action for way in ways if not way.obstacle)
    closed = "; ".join(f"{way.action} ({way.obstacle})" for way in ways if way.obstacle)
    return f"{open_ways}. Not open to you here: {closed}" if closed else open_ways


def _describe_rootless() -> str:
    if shutil.which(SETUP):
        return f"rootless Docker: {SETUP} install"
    return f"install rootless Docker {WITH_BUILDX}: https://docs.docker.com/engine/security/rootless"


def _find_rootless_obstacle(user: str) -> str:
    with suppress(OSError, ValueError):
        if int(NAMESPACES.read_text()) == 0:
            return f"{NAMESPACES} is 0"
    if not shutil.which("newuidmap"):
        return "no program newuidmap; an administrator installs the package uidmap"
    named = (f"{user}:", f"{os.getuid()}:")
    try:
        has_range = any(line.startswith(named) for line in RANGES.read_text().splitlines())
    except OSError:
        has_range = False
    return "" if has_range else f"no line of {user} in {RANGES}; an administrator: usermod --add-subuids"


def _find_sudo_obstacle() -> str:
    if not shutil.which("sudo"):
        return "no program sudo; an administrator can"
    if not any(_is_member(name) for name in ADMINISTRATORS):
        return f"you are in none of the groups {', '.join(ADMINISTRATORS)}; an administrator can"
    return ""


def _is_member(name: str) -> bool:
    with suppress(KeyError):
        return grp.getgrnam(name).gr_gid in os.getgroups()
    return False


def _has_group(name: str) -> bool:
    with suppress(KeyError):
        return bool(grp.getgrnam(name))
    return False
