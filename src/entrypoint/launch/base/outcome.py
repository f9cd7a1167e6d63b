"""What a supervised run came to: the exit code, and the first failure with what a human needs to see of it."""

from __future__ import annotations

from launch.base.named_tuple import NamedTuple


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
