"""A unit test computes, in milliseconds: it starts no program and no server, and one that does so fails.

What needs programs or servers of this host is in tests/process, what needs an image or an engine in tests/container and
tests/integration.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

with suppress(ImportError):  # the contract's cases run in images as well, which have pytest alone
    import harness.examples  # noqa: F401 (its profile is for all property tests)

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind"}
HERE = Path(__file__).parent

is_unit_test = False


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Python calls it at every event that it audits, and keeps it to its own end: hence the flag."""
    if is_unit_test and event in STARTS:
        if event == "socket.bind" and isinstance(arguments[0], socket.SocketType):
            arguments[0].close()  # or its loss would be told in place of what follows
        raise RuntimeError(f"a unit test starts no program and no server: move it to tests/process ({event})")


sys.addaudithook(refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From setup to teardown of each test below this folder; pytest calls it for all the tests of a run."""
    global is_unit_test
    is_unit_test = HERE in item.path.parents
    try:
        return (yield)
    finally:
        is_unit_test = False
