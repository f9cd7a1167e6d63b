"""Asks NCCL's flight recorder in every rank for its dump: which collective each rank waits in, and for whom.

PyTorch's heartbeat thread reads a pipe for each rank and writes a file when anything comes through it.
"""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
FILE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
BOUND = 5.0  # seconds for the dumps; the thread looks once a second
LOOK = 0.1  # seconds


def dump(variables: Mapping[str, str]) -> list[str]:
    """The files that came of asking the ranks of a process with these variables; none where nobody listens."""
    pipes, files = variables.get(PIPE_VARIABLE, ""), variables.get(FILE_VARIABLE, "")
    if not pipes or not files:
        return []
    started = time.time()
    asked = sum(_ask(path) for path in _beginning_with(pipes) if path.endswith(".pipe"))
    deadline = time.monotonic() + BOUND
    found: list[str] = []
    while asked and len(found) < asked and time.monotonic() < deadline:
        time.sleep(LOOK)
        found = [path for path in _beginning_with(files) if os.path.getmtime(path) >= started - 1]
    return sorted(found)


def _ask(path: str) -> bool:
    with contextlib.suppress(OSError):  # nobody reads it any more
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(fd, b"1\n") > 0
        finally:
            os.close(fd)
    return False


def _beginning_with(prefix: str) -> list[str]:
    folder, name = os.path.split(prefix)
    try:
        return [f"{folder}/{entry}" for entry in os.listdir(folder) if entry.startswith(name)]
    except OSError:
        return []
