"""Advice for a user without an engine, by who the user is and what the docker client said: the only place of it.

Only root can start the private engine, and only root may open its socket. So nobody else is told to start one.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dlc.core.environment import starts_no_engine
from dlc.engine.ways_without_root import WITH_BUILDX, describe_ways, find_ways

DENIED = re.compile("(?i)permission denied")
# Its members may open the socket of an engine that a package has installed.
GROUP = "docker"
# The socket of such an engine.
SOCKET = Path("/var/run/docker.sock")
GPU_REMEDY = (
    "leave out --gpus, or install NVIDIA's driver and container toolkit on the engine's host, then: "
    "sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker"
)


def advise_without_engine() -> str:
    """Return what gets this user an engine if none answers and dlc can start none as this user."""
    if os.geteuid() == 0:
        return f"install Docker Engine {WITH_BUILDX} and start it, or set DOCKER_HOST to one that runs"
    can_start = shutil.which("apt-get") is not None and not starts_no_engine(os.environ)
    return describe_ways(find_ways(_user_name(), GROUP, can_start=can_start))


def advise_unreached(said: str, address: str | None, variable: str) -> str:
    """Return what helps if an engine that `variable` names did not let the client in, or is not there."""
    return advise_refused(address) if DENIED.search(said) else f"start it, or unset {variable}"


def advise_refused(address: str | None) -> str:
    """Return what lets this user use an engine whose client said "permission denied". None is the user's context."""
    kind, _, place = (address or f"unix://{SOCKET}").partition("://")
    if kind == "ssh":
        return f"let `ssh {place}` work without a question: put a key of yours into its authorized_keys"
    if os.geteuid() == 0:
        return f"look at the mode of {place}, and at what AppArmor or SELinux forbid: root was refused"
    if kind != "unix":
        return f"let {_user_name()} use {address}"
    return _advise_on_socket(Path(place))


def advise_beside_podman(origin: str) -> str:
    """Return what gets this user an engine that builds, if podman answers where `origin`, a variable, leads."""
    if origin.startswith("DOCKER_") and os.geteuid() == 0 and not starts_no_engine(os.environ):
        return f"unset {origin}, then run the same command again: dlc starts a Docker engine of its own beside podman"
    return advise_without_engine()


def advise_on_silence() -> str:
    """Return what helps with an engine that takes a question and does not answer."""
    if os.geteuid() == 0:
        return "wait, check its log, or restart it (the private one: dlc engine stop --force; dlc engine start)"
    return "wait, or restart it: sudo systemctl restart docker; if it is rootless: systemctl --user restart docker"


def _advise_on_socket(socket: Path) -> str:
    """Return what lets a user who is not root open a socket, by the group that it belongs to."""
    try:
        number = socket.stat().st_gid
    except PermissionError:
        return f"run dlc with sudo: only its owner may open the folder of {socket}"
    except OSError:
        number = -1
    if number in os.getgroups():
        return f"run dlc with sudo: the group of {socket} is yours, but {_user_name()} may not write to it"
    # The group was not there when the engine started.
    if number == 0:
        make = f"sudo groupadd --force {GROUP}; sudo systemctl restart docker"
        return f"{make}; {_advise_to_join(GROUP)}; or run dlc with sudo"
    name, members = _read_group(number)
    if _user_name() in members:
        return f"log in again, or: newgrp {name} ({_user_name()} is in that group, but was not when this session began)"
    return f"{_advise_to_join(name)}; or run dlc with sudo"


def _advise_to_join(group: str) -> str:
    return f"sudo usermod -aG {group} {_user_name()}, and log in again"


def _user_name() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


def _read_group(number: int) -> tuple[str, Sequence[str]]:
    """Return name and members of a group; of the group `docker` if this host does not know the number."""
    with suppress(KeyError, OverflowError):
        found = grp.getgrgid(number)
        return found.gr_name, found.gr_mem
    return GROUP, ()
