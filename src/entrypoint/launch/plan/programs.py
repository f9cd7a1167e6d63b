"""Where the programs lie that the launcher starts beside the user's: small scripts, each complete in itself."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


# Not in the package: a script's folder comes first on sys.path, and `signals` or `job` must not hide a user's module.
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "programs")

# A folder for PYTHONPATH, whose sitecustomize lets SIGUSR1 print stacks.
SITE = os.path.join(os.path.dirname(_FOLDER), "site")

# The interpreter of programs that need none of the image's packages: isolated, so no user variable changes it.
SYSTEM_PYTHON = ("/usr/bin/python3", "-I", "-S")


def when_listening(seconds: int, servers: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """What to put before a command that is to be started when all servers (host, port) listen; see the program."""
    addresses = (part for host, port in servers for part in (host, str(port)))
    return (*SYSTEM_PYTHON, path("when_listening"), str(seconds), *addresses, "--")


def path(name: str) -> str:
    """The file of the program `name`."""
    return f"{_FOLDER}/{name}.py"
