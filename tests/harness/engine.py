"""The one door to Docker for tests: the engine dlc itself would use. `reaper` removes what a run left there."""

from __future__ import annotations

import os
from functools import lru_cache

from dlc.core.process import Completed, run
from dlc.engine import connection
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


@lru_cache(maxsize=1)
def connect() -> connection.Engine:
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


def docker(*argv: str, seconds: float = HANG_BOUND, check: bool = True) -> Completed:
    """Run the docker client; ProcessError when it fails (unless `check` is false) or takes over `seconds`."""
    return run(["docker", *argv], env=connect().environment, timeout=seconds, check=check)


def run_once(image: str, *argv: str, options: tuple[str, ...] = (), seconds: float = HANG_BOUND) -> Completed:
    """`docker run --rm` to its end, whatever the exit code."""
    return docker("run", "--rm", "--label", RUN_LABEL, *options, image, *argv, seconds=seconds, check=False)
