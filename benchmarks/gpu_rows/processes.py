"""Runs the processes of a row until their bound, and ends all that they started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
LAST_LINES = 12
KILL_SECONDS = 20.0  # until a killed process is given up: one that waits for a driver cannot end


class RowError(Exception):
    """A row that has no figures; its text says why."""


class Command(NamedTuple):
    """One process; what it prints goes to `log`."""

    name: str
    argv: Sequence[str]
    environ: dict[str, str]
    log: Path


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none can escape `end_descendants`."""
    ctypes.CDLL(None, use_errno=True).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)


def run(commands: Sequence[Command], bound: float) -> None:
    """Run the commands side by side, for at most `bound` seconds; afterwards none of their descendants is left.

    Raises RowError if one fails or does not end in time, with the last lines that it printed.
    """
    deadline = time.monotonic() + bound
    started = [(command, _start(command)) for command in commands]
    try:
        failures = [why for command, process in started if (why := _failure(command, process, deadline, bound))]
    finally:
        end_descendants()
    if failures:
        raise RowError("\n".join(failures))


def _start(command: Command) -> subprocess.Popen[bytes]:
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("wb") as log:
        return subprocess.Popen(
            command.argv, env=command.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )


def _failure(command: Command, process: subprocess.Popen[bytes], deadline: float, bound: float) -> str:
    """Wait for a process and return why it failed, or nothing."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        why = f"{command.name}: not done after {bound:.0f} s"
    else:
        why = f"{command.name}: exit code {code}" if code else ""
    return f"{why}\n{last_lines(command.log)}" if why else ""


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])


def end_descendants() -> None:
    """Kill every process that descends from this one, and wait until they are gone."""
    deadline = time.monotonic() + KILL_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(ancestor: int) -> list[int]:
    """Return the ids of the processes below one."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, next_ones = [], [ancestor]
    while next_ones:
        next_ones = [child for parent in next_ones for child in children.get(parent, [])]
        found += next_ones
    return found
