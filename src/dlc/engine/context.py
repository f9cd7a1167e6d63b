"""The docker client's context `dlc`: lets plain `docker` commands reach the private engine while it runs."""

from __future__ import annotations

from dlc.core.process import Completed
from dlc.engine import client

NAME = "dlc"
SECONDS = 10.0


def current(seconds: float = SECONDS) -> tuple[str, str]:
    """Name and host of the client's current context; DOCKER_HOST does not count. Raises EngineError for no answer."""
    done = _context("inspect", "--format", "{{.Name}} {{.Endpoints.docker.Host}}", seconds=seconds)
    name, _, host = done.stdout.strip().partition(" ")
    return name, host


def is_ours(seconds: float = SECONDS) -> bool:
    """Whether the current context is the one that `select` made."""
    return current(seconds)[0] == NAME


def select(host: str) -> None:
    """Make `host` the engine of plain `docker` commands, where the user has chosen no other."""
    if current()[0] not in ("default", NAME):
        return
    _context("rm", "--force", NAME)
    _context("create", NAME, "--docker", f"host={host}")
    _context("use", NAME)


def deselect(host: str) -> None:
    """Take back what `select` did for `host`."""
    if current() == (NAME, host):
        _context("use", "default")
        _context("rm", "--force", NAME)


def _context(*words: str, seconds: float = SECONDS) -> Completed:
    # A DOCKER_HOST would hide the context.
    return client.docker("context", *words, env={"DOCKER_HOST": ""}, check=False, timeout=seconds)
