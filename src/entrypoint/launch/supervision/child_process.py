"""One started process: its pid, its two output streams, and its end as a failure."""

from __future__ import annotations

import errno
import os
import resource

from launch import signals
from launch.base.errors import Failure, signal_name
from launch.supervision.output import Console, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launch.base.process_spec import ProcessSpec
    from launch.supervision.event_log import ProcessLog
    from launch.supervision.rank_files import RankEnd
    from launch.supervision.settings import Settings


LAST_LINES = 20
# To look for the beginning of a traceback in
MOST_LINES = 1000
# What shells answer for a program that is not there
NOT_FOUND = 127
# And for one that cannot be executed
NOT_EXECUTABLE = 126


class ChildProcess:
    """A process in a session of its own, so that a terminal's Ctrl-C reaches it only through us."""

    def __init__(self, spec: ProcessSpec, console: Console, prefix: bytes, log: ProcessLog | None = None) -> None:
        """Start it. Raises OSError (program or working directory missing, not executable) or ValueError (NUL)."""
        self.spec = spec
        # -N for signal N
        self._code = 0
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.stdout = Stream(out_read, console.stdout, prefix, log)
        if spec.role == "mpirun":
            from launch.supervision.mpi_output import FramedStream

            self.stderr: Stream = FramedStream(err_read, console.stderr, prefix, log, self.stdout)
        else:
            self.stderr = Stream(err_read, console.stderr, prefix, log)
        console.add(self.stdout)
        console.add(self.stderr)
        try:
            self.pid = spawn_process(spec, out_write, err_write)
        finally:
            os.close(out_write)
            os.close(err_write)

    def ended(self, status: int) -> None:
        """Take the wait status from the reaper of all descendants."""
        self._code = os.waitstatus_to_exitcode(status)

    @property
    def exit_code(self) -> int:
        """Return the exit code as shells count: its own, or 128 + N for signal N. Only after `ended`."""
        return self._code if self._code >= 0 else 128 - self._code

    @property
    def signal_name(self) -> str:
        """Name of the signal that ended it, or empty."""
        return signal_name(-self._code) if self._code < 0 else ""

    @property
    def how_it_ended(self) -> str:
        """Return `exited with code 3`, `was ended by SIGKILL`."""
        return f"was ended by {self.signal_name}" if self.signal_name else f"exited with code {self.exit_code}"

    def last_lines(self) -> tuple[str, ...]:
        """Return its last lines on stderr; on stdout if stderr said nothing."""
        return self.stderr.last_lines(LAST_LINES) or self.stdout.last_lines(LAST_LINES)


def make_failure(
    child: ChildProcess, settings: Settings, cause: str, ranks: Sequence[RankEnd] = (), early: Sequence[str] = ()
) -> Failure:
    """Report a process that ended badly; below a starter, the rank that failed first.

    `early` are names of processes that had ended with 0 before it.
    """
    from launch.supervision.failure_cause import error_lines

    failure = Failure(
        cause=cause,
        role=child.spec.role,
        rank=child.spec.rank,
        host=settings.host,
        exit_code=child.exit_code,
        signal=child.signal_name,
        last_lines=child.last_lines(),
        error=error_lines(child.stderr.last_lines(MOST_LINES)),
    )
    from launch.supervision.failure_cause import root_cause, with_early_ends

    if child.spec.role in settings.starters:
        failure = root_cause(failure, child.stderr.tail.decode("utf-8", "replace"), ranks)
    return with_early_ends(failure, ranks, early)


def make_start_failure(spec: ProcessSpec, host: str, error: OSError | ValueError) -> Failure:
    """Report a process that could not be started."""
    missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
    found = f"{error.filename or spec.argv[0]}: {error.strerror}" if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        found += "; its arguments and variables are too long together: pass large values in a file of an input channel"
    return Failure(
        cause=f"{process_name(spec)} on {host} could not be started: {found} (command: {spec.argv[0]})",
        role=spec.role,
        rank=spec.rank,
        host=host,
        exit_code=NOT_FOUND if missing else NOT_EXECUTABLE,
    )


def process_name(spec: ProcessSpec) -> str:
    """Return `worker rank 3`, as messages call a process."""
    return f"{spec.role} rank {spec.rank}" if spec.rank >= 0 else spec.role


# The limit of open files that the launcher was started with, once it has raised its own
_inherited: list[int] = []


def raise_open_files() -> int:
    """Let this process open as many files as the hard limit says. Return that limit; it is negative for any number.

    Child processes get the old limit: some programs close every possible descriptor at their start.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # more than this kernel lets any process open
            return soft
        _inherited.append(soft)
    return hard


def spawn_process(spec: ProcessSpec, stdout: int, stderr: int) -> int:
    """Start a process in a session of its own, with nothing to read on stdin; its pid.

    Raises OSError (program or working directory missing, not executable) and ValueError (a NUL in an argument). By
    posix_spawn, for the subprocess module takes 2 ms to import; that knows no working directory, so ours is changed
    for the moment (no other thread of the launcher uses it).
    """
    here, hard = _open_working_directory(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        os.chdir(spec.cwd)
        # A stranger's connection that comes just now makes room, the job's hosts come again
        if _inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, (_inherited[0], hard))
        return os.posix_spawn(
            _find_program(spec.argv[0], spec.env.get("PATH", os.defpath)),
            spec.argv,
            spec.env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigdef=signals.IGNORED_BY_PYTHON,
        )
    finally:
        if _inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if here is not None:
            os.fchdir(here)
            os.close(here)


def _open_working_directory() -> int | None:
    """Open the working directory, to come back to; None if this user may not enter it (after a change of users)."""
    try:
        return os.open(".", os.O_PATH | os.O_DIRECTORY)
    except PermissionError:
        return None


def _find_program(name: str, path: str) -> str:
    """Return the file to execute, as a shell with this PATH finds it."""
    if "/" in name:
        return name
    candidates = [f"{folder or '.'}/{name}" for folder in path.split(":")]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
