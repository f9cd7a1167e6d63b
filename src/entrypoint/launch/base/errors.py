"""How a run ends: the one error a user sees, the exit codes (sysexits.h), the first failure in a verdict."""

from __future__ import annotations

import signal

from launch.base.compat import NamedTuple

USAGE = 64  # the command line
DATA = 65  # a file's content is not what it has to be
NO_INPUT = 66  # something that has to be read is not there
UNAVAILABLE = 69  # another host, S3, a package index
SOFTWARE = 70  # a bug of the launcher itself
CANNOT_CREATE = 73  # an output cannot be written
NO_PERMISSION = 77
CONFIG = 78  # a setting (variable or hyperparameter) is wrong

LONGEST_VALUE_SHOWN = 120  # characters: the message stays one line a person can read


class LaunchError(Exception):
    """Why nothing was started: one line that says what, where, what was expected, what was found and the remedy."""

    def __init__(
        self, exit_code: int, what: str, *, where: str = "", expected: str = "", found: str = "", remedy: str = ""
    ) -> None:
        parts = [f"{where}: {what}" if where else what]
        if expected:
            parts.append(f"expected {expected}")
        if found:
            parts.append(f"found {found}")
        if remedy:
            parts.append(remedy)
        super().__init__(one_line("; ".join(parts)))
        self.exit_code = exit_code


def one_line(text: str) -> str:
    """`text` without what would break a log line: control characters and lone surrogates are escaped."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def shown(value: object) -> str:
    """Return a value as it may stand in a message: itself if it is short, else its beginning and its kind."""
    try:
        text = ascii(value) if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python prints, a very deep list
        return f"a {type(value).__name__}"
    if len(text) <= LONGEST_VALUE_SHOWN:
        return text
    return f"{text[:LONGEST_VALUE_SHOWN]}... (a {type(value).__name__}, {len(text)} characters)"


class Failure(NamedTuple):
    """The first failure by time."""

    cause: str  # one line: what happened, with the exit code or the signal's name
    role: str = ""  # ProcessSpec.role; empty when no process of ours is to blame (a peer vanished, a stop request)
    rank: int = -1  # ProcessSpec.rank, -1 as above
    host: str = ""
    exit_code: int = 1
    signal: str = ""  # "SIGSEGV", or empty for an ordinary exit
    last_lines: tuple[str, ...] = ()  # of its stderr (of its stdout where stderr said nothing), oldest first
    error: tuple[str, ...] = ()  # out of these lines: the frame in the user's code and the error of the last traceback
    details: str = ""  # long evidence, such as every rank's Python stack


class Outcome(NamedTuple):
    """How a host's part of the job ended."""

    exit_code: int  # the user's own code, 128 + N for signal N
    failure: Failure | None = None
    stopped: bool = False  # after a request to stop: no success, whatever the exit code

    @property
    def cause(self) -> str:
        """Why it failed; empty for a success."""
        return self.failure.cause if self.failure else ""


FAILED, STOPPED, HUNG = "failed", "stopped", "hung"  # ways a job ends badly, as its hosts tell each other
RESTART = "restart"  # another host failed, and all start their processes again


class Verdict(NamedTuple):
    """The group of hosts has ended, and so has this host to."""

    outcome: Outcome
    kind: str = ""  # FAILED; STOPPED: with the long grace, to save their state; HUNG: with stacks; RESTART: for now


def signal_name(signum: int) -> str:
    """`SIGKILL` for 9; real-time signals have no name of their own."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
