"""What is at work on the private engine now: containers, and clients such as builds. Asked before it is stopped."""

from __future__ import annotations

import time
from pathlib import Path

from dlc.core.errors import EngineError
from dlc.engine import client

CONNECTED = "03"  # state of a socket in /proc/net/unix
ASK_SECONDS = 10.0
LEAVE_SECONDS = 1.0  # until the engine has noticed that our own client is gone
CLIENTS = {"docker", "docker-buildx", "docker-compose", "buildx"}


def describe(host: str, socket: Path) -> list[str]:
    """A line for each container that runs and for the clients that are connected; none when the engine is idle."""
    try:
        done = client.docker("ps", "--format", "container {{.Names}} ({{.Image}})", env=client.reach(host),
                             timeout=ASK_SECONDS)  # fmt: skip
    except EngineError as error:
        return [f"it is not known what runs: {error.message}"]
    return [*done.stdout.splitlines(), *_clients(host, socket)]


def connections(socket: Path, table: Path = Path("/proc/net/unix")) -> int:
    """How many clients hold a connection to a socket."""
    rows = [line.split() for line in table.read_text(errors="replace").splitlines()]
    return sum(len(row) > 7 and row[5] == CONNECTED and row[7] == str(socket) for row in rows)


def _clients(host: str, socket: Path) -> list[str]:
    deadline = time.monotonic() + LEAVE_SECONDS
    while (count := connections(socket)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if not count:
        return []
    return _commands(host) or [f"{count} connections of clients, such as a build or `docker logs --follow`"]


def _commands(host: str) -> list[str]:
    """The docker clients of this host as they were typed, without those that are told to use another engine."""
    found = []
    for path in sorted(Path("/proc").glob("[0-9]*")):
        try:
            argv = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            variables = (path / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        chosen = [line for line in variables if line.startswith("DOCKER_HOST=")]
        if argv and Path(argv[0]).name in CLIENTS and chosen in ([], [f"DOCKER_HOST={host}"]):
            found.append(f"client {path.name}: {' '.join([Path(argv[0]).name, *argv[1:]])[:100]}")
    return found
