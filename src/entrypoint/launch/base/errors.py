"""How a run ends: the one error a user sees, the exit codes (sysexits.h), the first failure in a verdict."""

from __future__ import annotations

import signal

from launch.base.compat import NamedTuple

# The command line
USAGE = 64
# A file's content is wrong
DATA = 65
# Something that has to be read is not there
NO_INPUT = 66
# Another host, S3, a package index
UNAVAILABLE = 69
# A bug of the launcher itself
SOFTWARE = 70
# An output cannot be written
CANNOT_CREATE = 73
NO_PERMISSION = 77
# A setting (variable or hyperparameter) is wrong
CONFIG = 78

# Characters: the message stays one line a person can read
LONGEST_VALUE_SHOWN = 120


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
    """Return the text as one line: control characters and lone surrogates are escaped."""
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

    # One line: what happened, with the exit code or the signal's name
    cause: str
    # ProcessSpec.role; empty when no process of ours is to blame (a peer vanished, a stop request)
    role: str = ""
    # ProcessSpec.rank, -1 as above
    rank: int = -1
    host: str = ""
    exit_code: int = 1
    # "SIGSEGV", or empty for an ordinary exit
    signal: str = ""
    # Of its stderr (of its stdout if stderr said nothing), oldest first
    last_lines: tuple[str, ...] = ()
    # Out of these lines: the frame in the user's code and the error of the last traceback
    error: tuple[str, ...] = ()
    # Long evidence, such as every rank's Python stack
    details: str = ""


class Outcome(NamedTuple):
    """How a host's part of the job ended."""

    # The user's own code, 128 + N for signal N
    exit_code: int
    failure: Failure | None = None
    # True if a stop was requested: not a success even with exit code 0
    stopped: bool = False
    # Programs of the user's code that still ran when the script had ended well
    left_running: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """Return why it failed; empty for a success."""
        return self.failure.cause if self.failure else ""


# Ways a job ends badly, as its hosts tell each other
FAILED, STOPPED, HUNG = "failed", "stopped", "hung"
# Another host failed, and all start their processes again
RESTART = "restart"


class Verdict(NamedTuple):
    """The group of hosts has ended, and so has this host to."""

    outcome: Outcome
    # FAILED; STOPPED: with the long grace, to save their state; HUNG: with stacks; RESTART: for now
    kind: str = ""
    # What a host says that ends well without having heard how the group ended
    word: str = ""


def signal_name(signum: int) -> str:
    """Return `SIGKILL` for 9; real-time signals have no name of their own."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
