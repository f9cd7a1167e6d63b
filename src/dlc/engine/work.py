"""What uses the private engine now: containers, and clients such as builds. Checked before it is stopped."""

from __future__ import annotations

import time
from pathlib import Path

from dlc.core.errors import EngineError
from dlc.engine import client
from dlc.engine.sockets import connections

ASK_SECONDS = 60.0
LEAVE_SECONDS = 1.0  # until the engine has closed the connection of our own client
CLIENTS = {"docker", "docker-buildx", "docker-compose", "buildx"}


def describe(address: str, socket: Path) -> list[str]:
    """A line for each running container and each connected client; none when the engine is idle."""
    try:
        done = client.docker("ps", "--format", "container {{.Names}} ({{.Image}})", env=client.reach(address),
                             timeout=ASK_SECONDS)  # fmt: skip
    except EngineError as error:
        return [f"what runs is not known: {error.message}"]
    return [*done.stdout.splitlines(), *_clients(address, socket)]


def _clients(address: str, socket: Path) -> list[str]:
    deadline = time.monotonic() + LEAVE_SECONDS
    try:
        while (count := connections(socket)) and time.monotonic() < deadline:
            time.sleep(0.1)
    except OSError:  # a kernel without sock_diag
        return _commands(address)
    if not count:
        return []
    return _commands(address) or [f"{count} connections of clients, such as a build or `docker logs --follow`"]


def _commands(address: str) -> list[str]:
    """The command lines of docker clients on this host, without those that use another engine."""
    found = []
    for path in sorted(Path("/proc").glob("[0-9]*")):
        try:
            argv = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            variables = (path / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        chosen = [line for line in variables if line.startswith("DOCKER_HOST=")]
        if argv and Path(argv[0]).name in CLIENTS and chosen in ([], [f"DOCKER_HOST={address}"]):
            found.append(f"client {path.name}: {' '.join([Path(argv[0]).name, *argv[1:]])[:100]}")
    return found
