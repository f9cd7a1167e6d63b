"""Where images are pushed to, read from the command line by Docker's rules for references."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from dlc.core.errors import UsageError

# Docker Hub is the one registry whose name, API and entry in the docker configuration differ.
HUB = "docker.io"
HUB_API = "registry-1.docker.io"
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"  # a part of a host's name
REGISTRY = re.compile(rf"(?:{NAME}(?:\.{NAME})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?")
PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")


@dataclass(frozen=True)
class Address:
    """A registry and the path below which the repositories lie, one for each framework."""

    registry: str  # its name with its port, as in `registry.example:5000`
    path: str

    @property
    def url(self) -> str:
        """Root of the registry's API. Plain HTTP is used on this host only, as Docker does."""
        scheme = "http" if is_loopback(self.registry) else "https"
        return f"{scheme}://{HUB_API if self.registry == HUB else self.registry}"


def parse(text: str) -> Address:
    """`REGISTRY/REPO` as an address. Raises UsageError: a text without a registry's name would mean Docker Hub's."""
    registry, _, path = text.partition("/")
    named = REGISTRY.fullmatch(registry) and (set(".:") & set(registry) or registry == "localhost")
    if not named or not PATH.fullmatch(path) or not _has_port(registry):
        public = re.sub(r"^.*@(?!sha256:)", "", text)  # without a user and a password
        raise UsageError(
            f"--to {public}: expected REGISTRY/REPO, such as registry.example:5000/team or docker.io/team, or ecr",
            "the registry's name has a dot, a port or is localhost; REPO is lower-case, without a tag",
        )
    return Address(registry, path)


def _has_port(registry: str) -> bool:
    """Whether the port is one, or there is none."""
    port = re.search(r":(\d+)$", registry)
    return port is None or 0 < int(port[1]) < 1 << 16


def is_loopback(name: str) -> bool:
    """Whether a name or address, with a port or without, is of this host: localhost, 127.0.0.0/8 or [::1]."""
    name = re.sub(r":\d+$", "", name).strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
