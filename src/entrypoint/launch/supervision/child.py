"""One started process of the plan: its pid, its two output streams, and what its end means."""

from __future__ import annotations

import errno
import os
import signal

from launch.base.outcome import Failure
from launch.supervision.output import Console, Stream
from launch.supervision.spawn import spawn

TYPE_CHECKING = False  # typing's own costs 2 ms at start
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launch.base.process_spec import ProcessSpec
    from launch.supervision.journal import Log
    from launch.supervision.ranks import RankEnd

LAST_LINES = 20
MOST_LINES = 1000  # to look for the beginning of a traceback in
NOT_FOUND = 127  # what shells answer for a program that is not there
NOT_EXECUTABLE = 126  # and for one that cannot be executed


class Child:
    """A process in a session of its own, so that a terminal's Ctrl-C reaches it only through us."""

    def __init__(self, spec: ProcessSpec, console: Console, prefix: bytes, log: Log | None = None) -> None:
        """Start it. Raises OSError (program or working directory missing, not executable) or ValueError (NUL)."""
        self.spec = spec
        self._code = 0  # -N for signal N
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.stdout = Stream(out_read, console.stdout, prefix, log)
        if spec.role == "mpirun":
            from launch.supervision.packets import PacketStream

            self.stderr: Stream = PacketStream(err_read, console.stderr, prefix, log, self.stdout)
        else:
            self.stderr = Stream(err_read, console.stderr, prefix, log)
        console.add(self.stdout)
        console.add(self.stderr)
        try:
            self.pid = spawn(spec, out_write, err_write)
        finally:
            os.close(out_write)
            os.close(err_write)

    def ended(self, status: int) -> None:
        """Take the wait status from the reaper of all descendants."""
        self._code = os.waitstatus_to_exitcode(status)

    @property
    def exit_code(self) -> int:
        """The exit code as shells count: the process's own, or 128 + N for signal N. Only after `ended`."""
        return self._code if self._code >= 0 else 128 - self._code

    @property
    def signal_name(self) -> str:
        """Name of the signal that ended it, or empty."""
        return signal_name(-self._code) if self._code < 0 else ""

    @property
    def how_it_ended(self) -> str:
        """`exited with code 3`, `was ended by SIGKILL`."""
        return f"was ended by {self.signal_name}" if self.signal_name else f"exited with code {self.exit_code}"

    def last_lines(self) -> tuple[str, ...]:
        """Its last lines on stderr; on stdout where stderr said nothing."""
        return self.stderr.last_lines(LAST_LINES) or self.stdout.last_lines(LAST_LINES)


def failure_of(child: Child, host: str, cause: str, ranks: Sequence[RankEnd] = ()) -> Failure:
    """The failure report of a process that ended badly; below torchrun and mpirun, of the rank that failed first."""
    from launch.supervision.reason import telling

    failure = Failure(
        cause=cause,
        role=child.spec.role,
        rank=child.spec.rank,
        host=host,
        exit_code=child.exit_code,
        signal=child.signal_name,
        last_lines=child.last_lines(),
        error=telling(child.stderr.last_lines(MOST_LINES)),
    )
    from launch.supervision.rank_report import STARTERS, root_cause  # only jobs that failed need it

    if child.spec.role not in STARTERS:
        return failure
    return root_cause(failure, child.stderr.tail.decode("utf-8", "replace"), ranks)


def start_failure(spec: ProcessSpec, host: str, error: OSError | ValueError) -> Failure:
    """The failure report of a process that could not be started."""
    missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
    found = f"{error.filename or spec.argv[0]}: {error.strerror}" if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        found += "; its arguments and variables are too long together: pass large values in a file of an input channel"
    return Failure(
        cause=f"{name_of(spec)} on {host} could not be started: {found} (command: {spec.argv[0]})",
        role=spec.role,
        rank=spec.rank,
        host=host,
        exit_code=NOT_FOUND if missing else NOT_EXECUTABLE,
    )


def name_of(spec: ProcessSpec) -> str:
    """`worker rank 3`, as messages call a process."""
    return f"{spec.role} rank {spec.rank}" if spec.rank >= 0 else spec.role


def signal_name(signum: int) -> str:
    """`SIGKILL` for 9; real-time signals have no name of their own."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
