"""The only module that runs other programs: keeps their output, raises typed errors, ends all their children."""

from __future__ import annotations

import atexit
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread, Timer
from typing import IO, NoReturn, TypeVar

from dlc.core.errors import ProcessError, ProcessTimeoutError
from dlc.core.interrupts import held

TAIL_LINES = 25
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl
# From SIGTERM to SIGKILL.
GRACE_SECONDS = 10.0
T = TypeVar("T")


@dataclass(frozen=True)
class Completed:
    """What a finished program left: its exit code and its output as text (stderr may be merged into stdout)."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def show_command(argv: Sequence[str]) -> None:
    """Show a command on stderr as a user could type it."""
    print("+", shlex.join(argv), file=sys.stderr, flush=True)


def run_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str | None] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    check: bool = True,
    timeout: float | None = 600.0,
    grace: float = GRACE_SECONDS,
    show: bool = False,
) -> Completed:
    """Run to the end and keep the output; a non-zero exit raises ProcessError with the last lines when `check`.

    `env` is added to the caller's environment; None takes a variable out of it. After `timeout` seconds the program and
    all that it started get SIGTERM, `grace` seconds later SIGKILL, and ProcessTimeoutError is raised. Bytes that are
    not UTF-8 become U+FFFD.
    """
    if show:
        show_command(argv)
    with _open_group(argv, env, stdin, cwd, stderr=subprocess.PIPE, grace=grace) as child:
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ProcessTimeoutError(
                f"{shlex.join(argv)}: not finished after {timeout:g} s", "check what it waits for"
            ) from None
    if check and child.returncode:
        raise ProcessError(f"{shlex.join(argv)}: exit code {child.returncode}\n{last_lines(err or out)}")
    return Completed(tuple(argv), child.returncode, out, err)


def stream_program(
    argv: Sequence[str],
    on_line: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    on_error: Callable[[str], None] | None = None,
    timeout: float | None = None,
    ends_with_us: bool = False,
) -> int:
    """Run, hand each line of the merged output to `on_line`, return the exit code.

    With `on_error` each line of stderr goes there, from another thread: if both are written at the same time, merged
    lines would be torn. After `timeout` seconds it is ended as by `run`. With `ends_with_us` the kernel sends it
    SIGTERM if dlc is killed: nobody would want what it makes.
    """
    stderr = subprocess.PIPE if on_error else subprocess.STDOUT
    with (
        _open_group(argv, env, stdin, cwd, stderr=stderr, grace=GRACE_SECONDS, ends_with_us=ends_with_us) as child,
        _end_after(child, timeout) as late,
    ):
        errors = Thread(target=_pass_lines, args=(child.stderr or (), on_error or on_line), daemon=True)
        errors.start()
        _pass_lines(child.stdout or (), on_line)
        errors.join()
        code = child.wait()
        if late.is_set():
            raise ProcessTimeoutError(
                f"{shlex.join(argv)}: not finished after {timeout:g} s", "check what it waits for"
            )
        return code


@contextmanager
def run_program_beside(argv: Sequence[str], read: Callable[[Iterable[str]], None]) -> Iterator[None]:
    """Run a program beside the block, at whose end it is ended. `read` gets its lines, in a thread of its own."""
    with _open_group(argv, None, None, None, stderr=subprocess.STDOUT, grace=GRACE_SECONDS) as child:
        reader = Thread(target=read, args=(child.stdout or (),), daemon=True)
        reader.start()
        try:
            yield
        finally:
            end_group(child)
            # Before the pipe is closed, which it reads.
            reader.join(GRACE_SECONDS)


@contextmanager
def _end_after(child: subprocess.Popen[str], seconds: float | None) -> Iterator[Event]:
    """End the child if the block takes longer, which sets the event. Without `seconds` there is no bound."""
    late = Event()

    def end() -> None:
        late.set()
        end_group(child)

    timer = Timer(seconds or 0.0, end)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield late
    finally:
        timer.cancel()


@contextmanager
def run_beside(work: Callable[[], T]) -> Iterator[Future[T]]:
    """Run `work` in a thread of its own beside the block; the result, or the error, is in the Future.

    If the block raises, the programs that `work` runs are ended, and it has GRACE_SECONDS to clean up after itself.
    """
    done: Future[T] = Future()

    def run_it() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            # The error is raised again if the result is asked for.
            done.set_exception(error)

    thread = Thread(target=run_it, daemon=True)
    thread.start()
    try:
        yield done
    except BaseException:
        deadline = time.monotonic() + GRACE_SECONDS
        while thread.is_alive() and time.monotonic() < deadline:
            for child in tuple(_running):
                end_group(child)
            thread.join(0.1)
        raise


def _pass_lines(lines: Iterable[str], on_line: Callable[[str], None]) -> None:
    for line in lines:
        on_line(line.rstrip("\n"))


_running: list[subprocess.Popen[str]] = []


@atexit.register
def _end_all() -> None:
    """End what another thread still runs when dlc ends."""
    for child in _running:
        if child.returncode is None:
            _signal_group(child, signal.SIGKILL)


# Python warns if a Popen of a running program is deleted.
_daemons: list[subprocess.Popen[bytes]] = []


def start_daemon(argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program that outlives dlc, its shell and their Ctrl-C; its output goes to `log`. `env` is added."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
    _daemons.append(child)
    return child


def become_program(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Let a program take this process's place and terminal. `env` is added to the environment."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(argv[0], list(argv), {**os.environ, **env})  # noqa: S606 - no shell is meant


@contextmanager
def _open_group(
    argv: Sequence[str],
    env: Mapping[str, str | None] | None,
    stdin: str | None,
    cwd: Path | None,
    *,
    stderr: int,
    grace: float,
    ends_with_us: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a process group of its own.

    If the block ends early (an error, Ctrl-C), the whole group is ended.
    """
    child: subprocess.Popen[str] | None = None
    try:
        # No program may run that nobody ends.
        with _open_input(stdin) as given, held:
            child = _start_child(argv, env, given, cwd, stderr, ends_with_us=ends_with_us)
            _running.append(child)
        yield child
    finally:
        if child:
            end_group(child, grace)
            _running.remove(child)
            for pipe in (child.stdout, child.stderr):
                if pipe:
                    pipe.close()


def _start_child(
    argv: Sequence[str], env: Mapping[str, str | None] | None, given: IO[bytes], cwd: Path | None, stderr: int,
    *, ends_with_us: bool,
) -> subprocess.Popen[str]:  # fmt: skip
    variables = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
    try:
        return subprocess.Popen(
            list(argv), env=variables, cwd=cwd, stdin=given, stdout=subprocess.PIPE, stderr=stderr,
            encoding="utf-8", errors="replace", start_new_session=True,
            preexec_fn=_end_with_parent if ends_with_us else None,
        )  # fmt: skip
    except FileNotFoundError:
        raise ProcessError(f"{argv[0]}: no such program", f"install {argv[0]} or put it on PATH") from None
    except OSError as error:
        raise ProcessError(f"{argv[0]}: cannot be run: {error.strerror}", f"look at {argv[0]} on PATH") from None


def _end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process when the thread that started it ends, as with a killed dlc.

    Between fork and exec: nothing may be imported or locked here.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _open_input(text: str | None) -> IO[bytes]:
    """Return a file to read `text` from: a pipe could break, or block while nobody reads."""
    if text is None:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    file.write(text.encode())
    file.seek(0)
    return file


def end_group(child: subprocess.Popen[str], grace: float = GRACE_SECONDS) -> None:
    """End a child's process group: SIGTERM, up to `grace` seconds, SIGKILL. A second Ctrl-C skips the rest of the wait.

    A child that was already waited for is left alone: its pid may belong to another process.
    """
    if child.returncode is not None:
        return
    try:
        _signal_group(child, signal.SIGTERM)
        _wait_for_group(child, grace)
    finally:
        _signal_group(child, signal.SIGKILL)
        # A child can hang in the kernel, in a read from a dead disk.
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SECONDS)


def _signal_group(child: subprocess.Popen[str], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _wait_for_group(child: subprocess.Popen[str], seconds: float) -> None:
    """Wait until no process of the group runs, `seconds` at most."""
    deadline = time.monotonic() + seconds
    while _has_running(child.pid) and time.monotonic() < deadline:
        time.sleep(0.05)


def _has_running(group: int) -> bool:
    """Tell whether a process of this group still runs; a zombie does not count."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, number = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(number) == group and state not in "ZX":
            return True
    return False


def last_lines(text: str, lines: int = TAIL_LINES) -> str:
    """Return the last `lines` lines, in which programs say what went wrong."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
