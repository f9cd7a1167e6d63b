"""Runs the docker client on an engine that answered, and keeps its context `dlc`.

No other module writes the client's command lines.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dlc.core.environment import PLATFORM, host_platform
from dlc.core.errors import EngineError, ProcessTimeoutError
from dlc.core.platforms import require_runs_here
from dlc.core.process import GRACE_SECONDS, Completed, become_program, run_program, stream_program
from dlc.engine.remedies import advise_beside_podman, advise_on_silence

PROGRAM = "docker"
CONTEXT = "dlc"
# A cold client is read from the disk.
CONTEXT_SECONDS = 60.0


@dataclass(frozen=True)
class Engine:
    """An engine that answered. `address` is None for the client's own context, else the value of DOCKER_HOST."""

    address: str | None
    # "DOCKER_HOST", "DOCKER_CONTEXT", "context" or "private".
    origin: str
    version: str
    # Whether layers are kept as blobs and unpacked. The classic store keeps them unpacked only.
    containerd_store: bool
    platform: str = PLATFORM
    # The folder of its host that holds its images; empty if the engine does not say.
    data_root: str = ""
    # The file of the client's plug-in; empty too if the client does not list its plug-ins.
    buildx: str = ""
    # CPUs of its host; 0 if the engine does not say.
    cpus: int = 0
    # Bytes of memory of its host; 0 if the engine does not say.
    memory: int = 0
    # False only if the engine says so.
    offers_gpus: bool = True
    # The docker context that it is reached by, if that is not the client's own.
    context: str = ""
    # Whether podman answers in place of Docker.
    is_podman: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Return what a docker client needs in its environment to reach this engine."""
        return client_environment(self.address, self.context)

    def docker(
        self,
        *words: str,
        check: bool = True,
        timeout: float = 600.0,
        show: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        grace: float = GRACE_SECONDS,
    ) -> Completed:
        """Run the docker client on this engine to its end: `engine.docker("image", "inspect", ref)`.

        What ends dlc leaves it `grace` seconds. Raises EngineError for no answer within `timeout` seconds, ProcessError
        when it fails and `check` is true.
        """
        merged = {**self.environment, **(env or {})}
        return run_docker(*words, env=merged, check=check, timeout=timeout, show=show, stdin=stdin, grace=grace)

    def docker_lines(
        self,
        *words: str,
        on_line: Callable[[str], None],
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: Path | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> int:
        """Do the same for what takes long: each line of the output goes to `on_line`; returns the exit code.

        With `on_error` the lines of stderr go there, from another thread. The plug-in buildx is started by itself: the
        client would ask it first what it is. Raises EngineError if there is no client.
        """
        if not is_present():
            raise missing_error()
        is_build = words[0] == "buildx"
        return stream_program(
            [self.buildx, *words[1:]] if is_build and self.buildx else [PROGRAM, *words],
            on_line, env={**self.environment, **(env or {})}, stdin=stdin, cwd=cwd, on_error=on_error,
            # A job goes on without dlc, a build does not.
            ends_with_us=is_build,
        )  # fmt: skip

    def become_client(self, *words: str) -> NoReturn:
        """Let the client of this engine take this process's place, for what somebody types into.

        It has this process's terminal, and its exit code counts. Raises EngineError if there is no client.
        """
        if not is_present():
            raise missing_error()
        become_program([PROGRAM, *words], self.environment)

    def require_buildkit(self) -> None:
        """Raise EngineError if this is podman, whose service has no BuildKit."""
        if self.is_podman:
            raise EngineError(
                f"{self.address or 'the engine of the current context'}: expected a Docker engine, whose BuildKit makes"
                f" the images, found podman {self.version}, which has no BuildKit",
                advise_beside_podman(self.origin),
            )

    def require_platform(self, wanted: str = PLATFORM) -> None:
        """Raise EngineError if this engine, or the host that makes base files for it, is of another platform.

        Raises HostError for a platform that takes QEMU here and has none. An engine elsewhere is not asked for its own.
        """
        emulated = wanted != PLATFORM
        for place, found in ((self.address or "the Docker engine", self.platform), ("this host", host_platform())):
            if found != wanted and not emulated:
                raise platform_error(place, wanted, found)
        if emulated:
            require_runs_here(wanted)


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


def platform_error(place: str, wanted: str, found: str) -> EngineError:
    """Return the error for an engine, or a host, of another platform than its images."""
    return EngineError(
        f"{place}: expected {wanted}, the platform of these images, found {found}", f"run dlc on a {wanted} host"
    )


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
