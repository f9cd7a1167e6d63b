"""Runs a host's processes to their end: output carried, stop signals passed on, first failure kept, nothing left."""

from __future__ import annotations

import signal
import time
from typing import NamedTuple

from launch import descendants, signals
from launch.child import Child, failure_of, name_of, signal_name, start_failure
from launch.failure import frame
from launch.outcome import Failure, Outcome
from launch.output import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from launch.process_spec import ProcessSpec

    class Watch(Protocol):
        """Something besides the processes that can end the run: the group of hosts, the hang watchdog."""

        def fileno(self) -> int:
            """A descriptor that is readable when there is news, or -1: `verdict` is asked once a second anyway."""

        def verdict(self, console: Console) -> Outcome | None:
            """How the run has to end, or None to go on."""


STOP_GRACE = 100.0  # seconds; the platform sends SIGKILL 120 s after its SIGTERM
END_GRACE = 10.0  # seconds; for what is left when the job's own processes have ended or one has failed
KILL_BOUND = (
    10.0  # seconds; a process that SIGKILL does not end hangs in the kernel (a dead network mount, a GPU driver)
)
OUTPUT_BOUND = 5.0  # seconds; for a slow reader of our output at the very end
KILL_INTERVAL = 0.05  # seconds between two rounds of SIGKILL
TICK = 1.0  # seconds between looks at the watches
IDLE = 60.0  # seconds to sleep where only output and signals can happen


class Settings(NamedTuple):
    """How a run is supervised. All durations in seconds."""

    host: str = "localhost"  # in prefixes and failure reports
    prefix: bool | None = None  # `[host:rank] ` before every line; None: where there is more than one process
    stop_grace: float = STOP_GRACE  # from a SIGTERM or SIGINT that we got to SIGKILL (DLC_STOP_GRACE)
    end_grace: float = END_GRACE  # from SIGTERM to SIGKILL for what is left after the end (DLC_END_GRACE)
    watches: tuple[Watch, ...] = ()


def run(specs: Sequence[ProcessSpec], settings: Settings | None = None) -> Outcome:
    """Start every process and come back when they and all their descendants have ended.

    The first failure of an essential process, a stop signal, a watch's verdict or the end of all essential processes
    ends the rest: SIGTERM to every descendant, the grace, SIGKILL. Raises nothing of its own: a process that cannot be
    started is a failure too (127 or 126, as in shells).
    """
    early = signals.received()
    if early:
        return Outcome(128 + early[0], _stopped(early[0]))
    supervision = _Supervision(settings or Settings())
    supervision.start(specs)
    while supervision.step():
        pass
    return supervision.outcome()


class _Supervision:
    """The state of one run. It runs until there is a reason to end it, then until `kill_at`, then it kills."""

    def __init__(self, settings: Settings) -> None:
        descendants.adopt_orphans()
        self.settings = settings
        wake_fds = [signals.fileno(), *(watch.fileno() for watch in settings.watches if watch.fileno() >= 0)]
        self.console = Console(wake_fds)
        self.running: dict[int, Child] = {}
        self.failure: Failure | None = None
        self.verdict: Outcome | None = None  # a watch's
        self.forwarded = 0  # how many of signals.received() the descendants got
        self.reasons: list[str] = []  # why it ends: "stop", "failure", "verdict", "ended"
        self.kill_at = float("inf")
        self.give_up_at = float("inf")
        self.several = False

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        """Start them in order; the first that cannot be started ends the run."""
        self.several = len(specs) > 1
        prefixed = self.several if self.settings.prefix is None else self.settings.prefix
        for spec in specs:
            prefix = f"[{self.settings.host}:{spec.rank}] ".encode() if prefixed else b""
            try:
                child = Child(spec, self.console, prefix)
            except OSError as error:
                self.failure = start_failure(spec, self.settings.host, error)
                return
            self.running[child.pid] = child

    def step(self) -> bool:
        """One turn of the loop; False when nothing is left below us, or only what cannot be killed."""
        self.console.turn(self._patience())
        signals.drain()
        self._forward_signals()
        if not self._reap():
            return False
        self._ask_watches()
        if self.failure and not self.reasons:
            self._end("failure", self.settings.end_grace)
        if not any(child.spec.essential for child in self.running.values()):
            self._end("ended", self.settings.end_grace)
        return time.monotonic() < self.kill_at or self._kill()

    def outcome(self) -> Outcome:
        """How it ended, when the last bytes of output are out."""
        outcome = self.verdict or Outcome(self.failure.exit_code if self.failure else 0, self.failure)
        if outcome.failure:
            self.console.stderr.write(frame(outcome.failure, with_lines=self.several).encode())
        self.console.finish(OUTPUT_BOUND)
        return outcome

    def _patience(self) -> float:
        """Seconds to wait for something to happen."""
        if self.give_up_at < float("inf"):
            return KILL_INTERVAL
        until_kill = self.kill_at - time.monotonic()
        return max(0.0, min(until_kill, TICK if self.settings.watches else IDLE))

    def _forward_signals(self) -> None:
        """Pass new stop signals on to every descendant; a second SIGINT means now."""
        received = signals.received()
        for signum in received[self.forwarded :]:
            self._say(
                f"{signal_name(signum)} received, passed on to every process; {self.settings.stop_grace:g} s grace"
            )
            descendants.signal_all(signum)
            self._end("stop", self.settings.stop_grace, already_signalled=True)
        self.forwarded = len(received)
        if received.count(signal.SIGINT) > 1:
            self.kill_at = 0.0

    def _end(self, reason: str, grace: float, already_signalled: bool = False) -> None:
        """Begin the end, or bring it forward. What got its SIGTERM is not sent another."""
        if reason in self.reasons:
            return
        if not self.reasons and not already_signalled:
            descendants.signal_all(signal.SIGTERM)
        self.reasons.append(reason)
        self.kill_at = min(self.kill_at, time.monotonic() + grace)

    def _reap(self) -> bool:
        """Collect what has ended; False when no child is left. Several at once: a signal's victim is the cause."""
        ended, any_left = descendants.reap()
        failed = []
        for pid, status in ended:
            child = self.running.pop(pid, None)
            if child:
                child.ended(status)
                if child.spec.essential and child.exit_code != 0:
                    failed.append(child)
        if failed and self.failure is None and self.verdict is None:
            first = min(failed, key=lambda child: not child.signal_name)
            self.console.drain([first.stdout, first.stderr])
            self.failure = failure_of(first, self.settings.host, self._cause(first))
        return any_left

    def _cause(self, child: Child) -> str:
        """What is known beyond the wait status; empty for nothing."""
        if "stop" not in self.reasons:
            return ""
        how = child.signal_name or f"exit code {child.exit_code}"
        if child.signal_name == "SIGKILL" and self.give_up_at < float("inf"):
            how = f"killed: still running {self.settings.stop_grace:g} s later"
        return f"stopped by {signal_name(signals.received()[0])}: {name_of(child.spec)} on {self.settings.host} ({how})"

    def _ask_watches(self) -> None:
        for watch in self.settings.watches:
            if self.verdict is None and self.failure is None:
                self.verdict = watch.verdict(self.console)
                if self.verdict:
                    self._end("verdict", self.settings.end_grace)

    def _kill(self) -> bool:
        """SIGKILL to all that is left, again and again: a process may fork faster than /proc is read."""
        left = descendants.signal_all(signal.SIGKILL)
        now = time.monotonic()
        if self.give_up_at == float("inf"):
            self.give_up_at = now + KILL_BOUND
            if left:
                self._say(f"killed, still running after the grace: {_list(left)}")
        elif now >= self.give_up_at:
            self._say(f"cannot be killed, they hang in the kernel: {_list(left)}")
            return False
        return True

    def _say(self, text: str) -> None:
        """A line of the launcher's own, in order with the processes' output."""
        self.console.stderr.write(f"dlc: {text}\n".encode())


def _list(pids: list[int]) -> str:
    shown = ", ".join(descendants.describe(pid) for pid in pids[:5])
    return shown + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")


def _stopped(signum: int) -> Failure:
    return Failure(f"stopped by {signal_name(signum)} before any process was started", exit_code=128 + signum)
