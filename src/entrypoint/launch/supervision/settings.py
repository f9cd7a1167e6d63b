"""How a run is supervised, and what it asks of the group of hosts that it is part of."""

from __future__ import annotations

from launch.base.compat import NamedTuple
from launch.base.errors import FAILED, Failure, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class GroupOfHosts(Protocol):
        """The group of hosts that this one is part of: member.Group."""

        @property
        def holds(self) -> bool:
            """Whether this host stays for the group's end when its own part is done."""

        @property
        def is_borne(self) -> bool:
            """Whether the job goes on although this host, a data host, has failed: its failure follows from nothing."""

        def fileno(self) -> int:
            """A descriptor that is readable once there is a verdict, or a stop of another host."""

        def verdict(self) -> Verdict | None:
            """How the run has to end because the group ended; None while it has not."""

        def report(self, failure: Failure | None, kind: str = FAILED) -> None:
            """Tell the group how this host's part ended: None is well, or with STOPPED: stopped, its state saved."""

        def stopping(self, signum: int) -> None:
            """Tell the group at once that this host was asked to stop."""

        def remote_stop(self) -> str:
            """Another host that was asked to stop, empty while none was: then this one stops too."""

        def ended_early(self, by_stop: str = "", left: str = "") -> None:
            """Tell the group of a process that the stop ended here, as a sentence, or of a rank that left with 0."""

        def ended_by_stop(self) -> str:
            """The first process of the job that the stop ended, where that was on another host; else empty."""


STOP_GRACE, STOP_MARGIN = 100.0, 20.0  # seconds; the platform sends SIGKILL 120 s after its SIGTERM
END_GRACE = 10.0  # seconds; for what is left when the job's own processes have ended or one has failed
RAY_END_GRACE = 3.0  # seconds; the same with Ray, whose tasks nobody waits for when the script has ended


class Settings(NamedTuple):
    """How a run is supervised. All durations in seconds."""

    host: str = "localhost"  # in prefixes and failure reports
    prefix: bool | None = None  # `[host:rank] ` before every line; None: where there is more than one process
    stop_grace: float = STOP_GRACE  # from a request to stop to the end of processes that still save (grace.py)
    stop_margin: float = STOP_MARGIN  # then until the platform's own SIGKILL
    end_grace: float = END_GRACE  # from SIGTERM to SIGKILL for what is left after the end (DLC_END_GRACE)
    hang_timeout: float = 0.0  # without output and CPU use; 0: never (DLC_HANG_TIMEOUT)
    group: GroupOfHosts | None = None  # told how this host's part ends; its end ends the run
    rank_folder: str = ""  # what ranks below a starter tell us of their ends (ranks.py)
    log_folder: str = ""  # for a log of each process and the events of the run; none without it (DLC_LOGS)
    more_follows: bool = False  # another run follows on this host: a good end of this one is no news for the group
