"""The docker client's context `dlc`, by which plain `docker` commands reach the private engine while it runs."""

from __future__ import annotations

from dlc.core.process import Completed
from dlc.engine import client

NAME = "dlc"
SECONDS = 60.0  # a cold client is read from the disk


def current(seconds: float = SECONDS) -> tuple[str, str]:
    """Name and address of the client's current context, whatever DOCKER_HOST is. Raises EngineError for no answer."""
    done = _context("inspect", "--format", "{{.Name}} {{.Endpoints.docker.Host}}", seconds=seconds)
    name, _, address = done.stdout.strip().partition(" ")
    return name, address


def select(address: str) -> None:
    """Let plain `docker` commands use the engine at `address`, unless the user has chosen another one."""
    if current()[0] not in ("default", NAME):
        return
    _context("rm", "--force", NAME)
    _context("create", NAME, "--docker", f"host={address}")
    _context("use", NAME)


def deselect(address: str) -> None:
    """Undo what `select` did for `address`."""
    if current() == (NAME, address):
        _context("use", "default")
        _context("rm", "--force", NAME)


def _context(*words: str, seconds: float = SECONDS) -> Completed:
    # A DOCKER_HOST would hide the context.
    return client.docker("context", *words, env={"DOCKER_HOST": ""}, check=False, timeout=seconds)
