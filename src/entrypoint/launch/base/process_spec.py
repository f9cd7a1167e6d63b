"""What one process of a host is started with, and what a strategy hands over: the processes and why they are so."""

from __future__ import annotations

from launch.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class ProcessSpec(NamedTuple):
    """One process on this host."""

    argv: tuple[str, ...]
    env: Mapping[str, str]  # the whole environment of the process
    cwd: str
    role: str  # "worker", "ps", "torchrun", "mpirun", ...
    rank: int  # the first global rank it holds
    essential: bool = True  # False: ended when the essential ones have ended, its own end is no failure
    vital: bool = False  # not essential, but without it the others cannot go on: its end before theirs is a failure
    failure: str = ""  # what has failed when it does, for a process that prepares the job: the user knows no rank of it


class Decision(NamedTuple):
    """A choice the launcher made, and the reason, for `--explain` and the log."""

    what: str
    why: str


class Launch(NamedTuple):
    """What a strategy makes of a job on this host."""

    strategy: str
    processes: tuple[ProcessSpec, ...]
    decisions: tuple[Decision, ...] = ()
    before: tuple[ProcessSpec, ...] = ()  # run to a good end first, one after the other
    files: Mapping[str, str] = {}  # path to content: private files that the processes read
