"""The one module that runs other programs: argv lists, output kept, failure typed, children never left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.core.errors import ProcessError

TAIL_LINES = 25


@dataclass(frozen=True)
class Completed:
    """What a finished program left: its exit code and its output as text (stderr may be merged into stdout)."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def echo(argv: Sequence[str]) -> None:
    """Show a command on stderr as a user could type it."""
    print("+", shlex.join(argv), file=sys.stderr, flush=True)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    check: bool = True,
    timeout: float | None = 600.0,
    show: bool = False,
) -> Completed:
    """Run to the end and keep the output; a non-zero exit raises ProcessError with the last lines when `check`.

    `env` is added to the caller's environment. `timeout` is in seconds; past it the program is killed.
    """
    if show:
        echo(argv)
    merged = {**os.environ, **env} if env else None
    try:
        done = subprocess.run(
            list(argv), env=merged, input=stdin, cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL if stdin is None else None,
        )  # fmt: skip
    except FileNotFoundError:
        raise ProcessError(f"{argv[0]}: no such program", f"install {argv[0]} or put it on PATH") from None
    except subprocess.TimeoutExpired:
        raise ProcessError(f"{shlex.join(argv)}: no end within {timeout:g} s", "see what it waits for") from None
    completed = Completed(tuple(argv), done.returncode, done.stdout, done.stderr)
    if check and done.returncode:
        raise ProcessError(f"{shlex.join(argv)}: exit code {done.returncode}\n{tail(done.stderr or done.stdout)}")
    return completed


def stream(
    argv: Sequence[str],
    on_line: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
) -> int:
    """Run in a process group of its own, hand each line of its merged output to `on_line`, return the exit code.

    Whatever ends this call (Ctrl-C included) also ends the whole group, so nothing strays.
    """
    merged = {**os.environ, **env} if env else None
    child = subprocess.Popen(
        list(argv), env=merged, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None  # noqa: S101 (PIPE was asked for)
    try:
        if stdin is not None:
            assert child.stdin is not None  # noqa: S101
            child.stdin.write(stdin)
            child.stdin.close()
        for line in child.stdout:
            on_line(line.rstrip("\n"))
        return child.wait()
    finally:
        end_group(child)
        child.stdout.close()


def end_group(child: subprocess.Popen[str], grace: float = 10.0) -> None:
    """End a child's process group: SIGTERM, `grace` seconds, SIGKILL."""
    if child.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(grace)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last `lines` lines, where programs say what went wrong."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
