"""The one door to Docker for tests: the engine dlc itself would use, and the removal of all that a run left there."""

from __future__ import annotations

import os
import uuid
from functools import lru_cache

from dlc.core.process import Completed, run
from dlc.engine import connection

RUN_LABEL = f"org.dlc.test-run={uuid.uuid4().hex[:12]}"


@lru_cache(maxsize=1)
def connect() -> connection.Engine:
    """The engine, started if need be. Raises EngineError.

    DOCKER_HOST is set for this process, since testinfra starts a docker client of its own.
    """
    engine = connection.connect()
    os.environ.update(engine.environment)
    return engine


def docker(*argv: str, seconds: float = 120.0, check: bool = True) -> Completed:
    """Run the docker client; ProcessError when it fails (unless `check` is false) or takes over `seconds`."""
    return run(["docker", *argv], env=connect().environment, timeout=seconds, check=check)


def run_once(image: str, *argv: str, options: tuple[str, ...] = (), seconds: float = 120.0) -> Completed:
    """`docker run --rm` to its end, whatever the exit code."""
    return docker("run", "--rm", "--label", RUN_LABEL, *options, image, *argv, seconds=seconds, check=False)


def remove_everything_of_this_run() -> None:
    """Remove the containers and networks that carry this run's label."""
    containers = docker("ps", "--all", "--quiet", "--filter", f"label={RUN_LABEL}").stdout.split()
    if containers:
        docker("rm", "--force", "--volumes", *containers)
    networks = docker("network", "ls", "--quiet", "--filter", f"label={RUN_LABEL}").stdout.split()
    if networks:
        docker("network", "rm", *networks)
