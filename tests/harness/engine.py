"""The one door to Docker for tests: the engine dlc itself would use. `reaper` removes what a run left there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from dlc.core.environment import host_platform
from dlc.core.process import Completed, run_program
from dlc.engine import connection
from dlc.engine.docker_client import Engine
from harness.reaper import LABEL, RUN_VARIABLE

# Many hosts, and many tests, share the few cores of one machine: threads that wait busily for each other make a step of
# milliseconds take seconds.
CALM = {
    "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}  # fmt: skip
CALM_OPTIONS = tuple(word for name, value in CALM.items() for word in ("--env", f"{name}={value}"))
HANG_BOUND = 300.0  # seconds; only a hang takes that long, on a busy engine too
RUN_LABEL = f"{LABEL}={os.environ.get(RUN_VARIABLE, '')}"
# The docker client's own variable.
PLATFORM = "DOCKER_DEFAULT_PLATFORM"
# How many times as long an emulator may take.
EMULATION = 6


@lru_cache(maxsize=1)
def connect() -> Engine:
    """The engine, started if need be. Raises EngineError.

    DOCKER_HOST is set for this process, since testinfra starts a docker client of its own. An engine that is started
    here outlives the run, as after `dlc build`.
    """
    run_number = os.environ.pop(RUN_VARIABLE, "")
    try:
        engine = connection.connect()
    finally:
        os.environ[RUN_VARIABLE] = run_number
    os.environ.update(engine.environment)
    return engine


@contextmanager
def on_platform(platform: str) -> Iterator[None]:
    """Let `docker run` know whose images these are: of an image without a platform named it warns on stderr."""
    before = os.environ.pop(PLATFORM, None)
    os.environ |= {PLATFORM: platform} if platform != host_platform() else {}
    try:
        yield
    finally:
        os.environ.pop(PLATFORM, None)
        os.environ |= {PLATFORM: before} if before else {}


def stretch(seconds: float) -> float:
    """Return the bound for a program of the images under test: longer if an emulator runs it."""
    return seconds * EMULATION if PLATFORM in os.environ else seconds


def docker(*argv: str, seconds: float = HANG_BOUND, check: bool = True) -> Completed:
    """Run the docker client; ProcessError when it fails (unless `check` is false) or takes over `seconds`."""
    return run_program(["docker", *argv], env=connect().environment, timeout=stretch(seconds), check=check)


def run_once(image: str, *argv: str, options: tuple[str, ...] = (), seconds: float = HANG_BOUND) -> Completed:
    """`docker run --rm` to its end, whatever the exit code."""
    return docker("run", "--rm", "--label", RUN_LABEL, *options, image, *argv, seconds=seconds, check=False)
