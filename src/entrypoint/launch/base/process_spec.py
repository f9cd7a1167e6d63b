"""What one process is started with, what a strategy hands over and why, and where the launcher's own programs lie."""

from __future__ import annotations

import os

from launch.base.compat import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ProcessSpec(NamedTuple):
    """One process on this host."""

    argv: tuple[str, ...]
    # The whole environment of the process
    env: Mapping[str, str]
    cwd: str
    # "worker", "ps", "torchrun", "mpirun", ...
    role: str
    # The first global rank it holds
    rank: int
    # False: ended when the essential ones have ended, its own end is no failure
    essential: bool = True
    # Not essential, but without it the others cannot go on: its end before theirs is a failure
    vital: bool = False
    # What has failed when it does, for a process that prepares the job: the user knows no rank of it
    failure: str = ""


class Decision(NamedTuple):
    """A choice the launcher made, and the reason, for `--explain` and the log."""

    what: str
    why: str


class Launch(NamedTuple):
    """What a strategy makes of a job on this host."""

    strategy: str
    processes: tuple[ProcessSpec, ...]
    decisions: tuple[Decision, ...] = ()
    # Run to a good end first, one after the other
    before: tuple[ProcessSpec, ...] = ()
    # Path to content: private files that the processes read
    files: Mapping[str, str] = {}

    def with_decisions(self, *decisions: Decision) -> Launch:
        """Return the same with these decisions before its own."""
        return self._replace(decisions=(*decisions, *self.decisions))


# Not in the package: a script's folder comes first on sys.path, and `signals` or `job` must not hide a user's module.
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "programs")

# A folder for PYTHONPATH, whose sitecustomize lets SIGUSR1 print stacks.
STARTUP_FOLDER = os.path.join(os.path.dirname(_FOLDER), "python_startup")

# The interpreter of programs that need none of the image's packages: isolated, so no user variable changes it.
SYSTEM_PYTHON = ("/usr/bin/python3", "-I", "-S")


def command_after_servers(seconds: int, servers: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return what to put before a command that is to start when all servers (host, port) listen."""
    addresses = (part for host, port in servers for part in (host, str(port)))
    return (*SYSTEM_PYTHON, program_path("wait_for_servers"), str(seconds), *addresses, "--")


def program_path(name: str) -> str:
    """Return the file of the program `name`."""
    return f"{_FOLDER}/{name}.py"
