"""Runs the docker client, and keeps its context `dlc`. No other module writes the client's command lines."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from dlc.core.errors import EngineError, ProcessTimeoutError
from dlc.core.process import GRACE_SECONDS, Completed, become_program, run_program, stream_program
from dlc.engine.remedies import advise_on_silence

PROGRAM = "docker"
CONTEXT = "dlc"
# A cold client is read from the disk.
CONTEXT_SECONDS = 60.0


def is_present() -> bool:
    """Tell whether there is a client on PATH."""
    return shutil.which(PROGRAM) is not None


def missing_error() -> EngineError:
    """Return the error for a host without a client."""
    return EngineError(
        "no docker client: expected the program docker on PATH, found none",
        "install it with its buildx plug-in (Debian 13: docker-cli and docker-buildx)",
    )


def client_environment(address: str | None, context: str = "") -> dict[str, str]:
    """Return the variables by which the client reaches the engine at `address`, or that of a context.

    Without both it is that of the client's own context.
    """
    if context:
        return {"DOCKER_HOST": "", "DOCKER_CONTEXT": context}
    return {"DOCKER_HOST": address} if address else {}


def run_docker(
    *words: str,
    env: Mapping[str, str],
    check: bool = True,
    timeout: float = 600.0,
    show: bool = False,
    stdin: str | None = None,
    grace: float = GRACE_SECONDS,
) -> Completed:
    """Run the client to its end. `env` is added to the environment. A short timeout also shortens the time for its end.

    Raises EngineError if there is no client or no answer within `timeout` seconds, ProcessError if it fails and
    `check` is true.
    """
    if not is_present():
        raise missing_error()
    end = min(grace, timeout / 6)
    try:
        return run_program([PROGRAM, *words], env=env, check=check, timeout=timeout, grace=end, show=show, stdin=stdin)
    except ProcessTimeoutError:
        where = env.get("DOCKER_HOST") or "the Docker engine of the current context"
        raise EngineError(
            f"{where}: not answering: `docker {' '.join(words[:2])}` got no answer within {timeout:g} s",
            advise_on_silence(),
        ) from None


def stream_docker(
    *words: str,
    on_line: Callable[[str], None],
    env: Mapping[str, str],
    stdin: str | None = None,
    cwd: Path | None = None,
    on_error: Callable[[str], None] | None = None,
    plugin: str = "",
) -> int:
    """Run the client, hand each line of its output to `on_line` (of stderr to `on_error`), return its exit code.

    `plugin` is the file of the plug-in that the first word names: it is started without the client.
    Raises EngineError if there is no client.
    """
    if not is_present():
        raise missing_error()
    return stream_program(
        [plugin, *words[1:]] if plugin else [PROGRAM, *words],
        on_line, env=env, stdin=stdin, cwd=cwd, on_error=on_error,
        # A job goes on without dlc, a build does not.
        ends_with_us=words[0] == "buildx",
    )  # fmt: skip


def become_docker(*words: str, env: Mapping[str, str]) -> NoReturn:
    """Become the client, for what somebody types into: it has this process's terminal, and its exit code counts.

    Raises EngineError if there is no client.
    """
    if not is_present():
        raise missing_error()
    become_program([PROGRAM, *words], env)


def as_typed(*words: str) -> str:
    """Return a command of the client as a user would type it."""
    return shlex.join([PROGRAM, *words])


def read_context(seconds: float = CONTEXT_SECONDS) -> tuple[str, str]:
    """Return name and address of the client's current context, whatever DOCKER_HOST is.

    Raises EngineError for no answer.
    """
    done = _run_context("inspect", "--format", "{{.Name}} {{.Endpoints.docker.Host}}", seconds=seconds)
    name, _, address = done.stdout.strip().partition(" ")
    return name, address


def select_context(address: str) -> None:
    """Let plain `docker` commands use the engine at `address`, unless the user has chosen another one."""
    if read_context()[0] not in ("default", CONTEXT):
        return
    _run_context("rm", "--force", CONTEXT)
    _run_context("create", CONTEXT, "--docker", f"host={address}")
    _run_context("use", CONTEXT)


def deselect_context(address: str) -> None:
    """Undo what `select` did for `address`."""
    if read_context() == (CONTEXT, address):
        _run_context("use", "default")
        _run_context("rm", "--force", CONTEXT)


def _run_context(*words: str, seconds: float = CONTEXT_SECONDS) -> Completed:
    # A DOCKER_HOST would hide the context.
    return run_docker("context", *words, env={"DOCKER_HOST": ""}, check=False, timeout=seconds)
