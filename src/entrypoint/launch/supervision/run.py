"""Runs a host's processes to their end: output carried, stop signals passed on, first failure kept, nothing left."""

from __future__ import annotations

import signal
import time
from typing import NamedTuple

from launch import signals
from launch.base.outcome import FAILED, HUNG, STOPPED, Failure, Outcome, Verdict
from launch.supervision import descendants, oom
from launch.supervision.child import Child, failure_of, name_of, signal_name, start_failure
from launch.supervision.failure import frame
from launch.supervision.output import Console
from launch.supervision.watchdog import Watchdog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from launch.base.process_spec import ProcessSpec

    class GroupOfHosts(Protocol):
        """The group of hosts that this one is part of: group_end.Group."""

        @property
        def holds(self) -> bool:
            """Whether this host stays for the group's end when its own part is done."""

        def fileno(self) -> int:
            """A descriptor that is readable once there is a verdict."""

        def verdict(self) -> Verdict | None:
            """How the run has to end because the group ended; None while it has not."""

        def report(self, failure: Failure | None, kind: str = FAILED) -> None:
            """Tell the group how this host's part ended: None is well, or with STOPPED: stopped, its state saved."""


STOP_GRACE = 100.0  # seconds; the platform sends SIGKILL 120 s after its SIGTERM
END_GRACE = 10.0  # seconds; for what is left when the job's own processes have ended or one has failed
KILL_BOUND = (
    10.0  # seconds; a process that SIGKILL does not end hangs in the kernel (a dead network mount, a GPU driver)
)
GROUP_BOUND = 2.0  # seconds to hear from the group, when our part failed, which host failed first
OUTPUT_BOUND = 5.0  # seconds; for a slow reader of our output at the very end
KILL_INTERVAL = 0.05  # seconds between two rounds of SIGKILL
TICK = 1.0  # seconds between looks at the watches
NOT_SERVED = 69  # EX_UNAVAILABLE of sysexits.h: a process that serves other hosts ended before them
HANG_CODE = 124  # what timeout(1) answers
IDLE = 60.0  # seconds to sleep where only output and signals can happen


class Settings(NamedTuple):
    """How a run is supervised. All durations in seconds."""

    host: str = "localhost"  # in prefixes and failure reports
    prefix: bool | None = None  # `[host:rank] ` before every line; None: where there is more than one process
    stop_grace: float = STOP_GRACE  # from a SIGTERM or SIGINT that we got to SIGKILL (DLC_STOP_GRACE)
    end_grace: float = END_GRACE  # from SIGTERM to SIGKILL for what is left after the end (DLC_END_GRACE)
    hang_timeout: float = 0.0  # without output and CPU use; 0: never (DLC_HANG_TIMEOUT)
    group: GroupOfHosts | None = None  # told how this host's part ends; its end ends the run
    more_follows: bool = False  # another run follows on this host: a good end of this one is no news for the group
    on_stop: Callable[[int], None] | None = None  # called at once when a stop signal came, with its number
    # Another host that was asked to stop, empty while none was: then this one stops too. `group.fileno()` wakes us.
    remote_stop: Callable[[], str] | None = None


def run(specs: Sequence[ProcessSpec], settings: Settings | None = None) -> Outcome:
    """Start every process and come back when they and all their descendants have ended.

    What ends the rest, by SIGTERM to every descendant, the grace, SIGKILL: the first failure of an essential process, a
    stop signal, a hang, the group's end, the end of all essential processes. Without an essential process (a host that
    serves others) or as a member of a group, the run stays until the group ends. Raises nothing of its own: a process
    that cannot be started is a failure too (127 or 126, as in shells).
    """
    supervision = _Supervision(settings or Settings())
    if signals.received():
        supervision.stopped("before any process was started")
        return supervision.outcome()
    supervision.start(specs)
    while supervision.step():
        pass
    return supervision.outcome()


class _Supervision:
    """The state of one run. It runs until there is a reason to end it, then until `kill_at`, then it kills."""

    def __init__(self, settings: Settings) -> None:
        descendants.adopt_orphans()
        self.settings = settings
        self.group = settings.group
        self.console = Console([signals.fileno(), *([self.group.fileno()] if self.group else [])])
        self.watchdog = Watchdog(settings.hang_timeout)
        self.memory = oom.read()
        self.running: dict[int, Child] = {}
        self.failure: Failure | None = None
        self.verdict: Verdict | None = None  # the group's
        self.told = False  # the group knows how our part ended
        self.forwarded = 0  # how many of signals.received() the descendants got
        self.reasons: list[str] = []  # why it ends: "stop", "failure", "verdict", "ended"
        self.kill_at = float("inf")
        self.give_up_at = float("inf")
        self.several = self.serves = False

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        """Start them in order; the first that cannot be started ends the run."""
        self.several = len(specs) > 1
        self.serves = not any(spec.essential for spec in specs)
        prefixed = self.several if self.settings.prefix is None else self.settings.prefix
        for spec in specs:
            prefix = f"[{self.settings.host}:{spec.rank}] ".encode() if prefixed else b""
            try:
                child = Child(spec, self.console, prefix)
            except (OSError, ValueError) as error:
                self.failure = start_failure(spec, self.settings.host, error)
                return
            self.running[child.pid] = child

    def step(self) -> bool:
        """One turn of the loop; False when there is nothing to wait for any more."""
        self.console.turn(self._patience())
        signals.drain()
        self._forward_signals()
        any_left = self._reap()
        self._look_for_a_hang()
        self._hear_the_group()
        if self.failure and not self.reasons:
            self._end("failure", self.settings.end_grace)
        if not self._is_working():
            self._part_ended()
        if not any_left:
            return not self.reasons
        return time.monotonic() < self.kill_at or self._kill()

    def outcome(self) -> Outcome:
        """How it ended, when the last bytes of output are out."""
        if self.failure:
            outcome = Outcome(self.failure.exit_code, self._with_the_groups_first(self.failure))
        else:
            outcome = self.verdict.outcome if self.verdict and "verdict" in self.reasons else Outcome(0)
        if outcome.failure:
            self.console.stderr.write(frame(outcome.failure, with_lines=self.several).encode("utf-8", "replace"))
        self.console.finish(OUTPUT_BOUND)
        return outcome

    def stopped(self, when: str) -> None:
        """Take a stop signal as the failure."""
        signum = signals.received()[0]
        cause = f"stopped by {signal_name(signum)} {when}"
        self._fail(Failure(cause, host=self.settings.host, exit_code=128 + signum), STOPPED)

    def _is_working(self) -> bool:
        return any(child.spec.essential for child in self.running.values())

    def _part_ended(self) -> None:
        """No essential process runs. A host that serves, or is a member of the group, stays for the group's end."""
        group, well = self.group, not self.failure and not self.verdict
        if group and well and not self.settings.more_follows:
            if not self.serves:
                self._tell(None)
            if not self.reasons and (self.serves or group.holds):
                return
        self._end("ended", self.settings.end_grace)

    def _fail(self, failure: Failure, kind: str = FAILED) -> None:
        """The first failure stays; the group hears of it at once."""
        if self.failure is None:
            self.failure = failure
            self._tell(failure, kind)

    def _tell(self, failure: Failure | None, kind: str = FAILED) -> None:
        if self.group and not self.told:
            self.told = True
            self.group.report(failure, kind)

    def _hear_the_group(self) -> None:
        """The group's end ends this host's part, unless that ends already for a reason of its own."""
        if self.group is None or self.verdict is not None:
            return
        self.verdict = self.group.verdict()
        if self.verdict is None or self.failure or "stop" in self.reasons:
            return
        self._say(self.verdict.outcome.cause or "the group of hosts has ended well")
        if self.verdict.kind == HUNG and self.running:
            self.verdict = Verdict(self._with_stacks(self.verdict.outcome), HUNG)
        long = self.verdict.kind == STOPPED
        self._end("verdict", self.settings.stop_grace if long else self.settings.end_grace)

    def _with_the_groups_first(self, own: Failure) -> Failure:
        """Name the group's first failure before our own where another host had it: ours may only follow from it."""
        if "stop" in self.reasons:  # every host is being stopped: there is nothing to explain
            return own
        deadline = time.monotonic() + GROUP_BOUND
        while self.group and self.told and self.verdict is None and time.monotonic() < deadline:
            self.console.turn(KILL_INTERVAL)
            self.verdict = self.group.verdict()
        first = self.verdict.outcome.failure if self.verdict else None
        if first is None or first.host in (own.host, self.settings.host):  # the group repeats what we told it
            return own
        return own._replace(cause=f"{first.cause}; then {own.cause}")

    def _look_for_a_hang(self) -> None:
        if self.reasons or self.failure or not self._is_working() or not self.watchdog.is_hung(self.console.bytes_read):
            return
        cause = (
            f"the job hangs on {self.settings.host}: no output and no CPU use for {self.settings.hang_timeout:g} s "
            "(DLC_HANG_TIMEOUT); the Python stacks of its processes follow"
        )
        self._say(cause)
        failure = Failure(cause, host=self.settings.host, exit_code=HANG_CODE)
        self._tell(failure, HUNG)  # before the stacks are there: the other hosts collect theirs meanwhile
        self._fail(self._with_stacks(Outcome(HANG_CODE, failure)).failure or failure)

    def _with_stacks(self, outcome: Outcome) -> Outcome:
        from launch.supervision import stacks  # rarely needed

        names = {pid: name_of(child.spec) for pid, child in self.running.items()}
        details = stacks.collect(self.console, names)
        return outcome._replace(failure=outcome.failure and outcome.failure._replace(details=details))

    def _patience(self) -> float:
        """Seconds to wait for something to happen."""
        if self.give_up_at < float("inf"):
            return KILL_INTERVAL
        until_kill = self.kill_at - time.monotonic()
        return max(0.0, min(until_kill, TICK if self.settings.hang_timeout else IDLE))

    def _forward_signals(self) -> None:
        """Pass new stop signals on to every descendant; a second SIGINT means now."""
        received = signals.received()
        for signum in received[self.forwarded :]:
            self._say(
                f"{signal_name(signum)} received, passed on to every process; {self.settings.stop_grace:g} s grace"
            )
            descendants.signal_all(signum)
            self._end("stop", self.settings.stop_grace, already_signalled=True)
        if self.forwarded < len(received) and self.serves:
            self.stopped("while it served the job's other hosts")
        self.forwarded = len(received)
        for signum in signals.take_relayed():
            descendants.signal_all(signum, catchers_only=True)
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
        statuses, any_left = descendants.reap()
        ended = [(self.running.pop(pid), status) for pid, status in statuses if pid in self.running]
        for child, status in ended:
            child.ended(status)
        if ended and "verdict" not in self.reasons:
            self._judge([child for child, _ in ended])
        return any_left

    def _judge(self, ended: list[Child]) -> None:
        """Whether the end of these processes is a failure of the run."""
        failed = [child for child in ended if child.spec.essential and child.exit_code != 0]
        if self.serves and not self.running and not self.reasons:
            failed = ended  # the other hosts still needed it, even if it thinks that it ended well
        if failed:
            first = min(failed, key=lambda child: not child.signal_name)
            self.console.drain([first.stdout, first.stderr])
            kind = STOPPED if "stop" in self.reasons else FAILED
            failure = failure_of(first, self.settings.host, self._cause(first))
            self._fail(failure._replace(exit_code=failure.exit_code or NOT_SERVED), kind)
        for child in ended:
            if not child.spec.essential and child.exit_code != 0 and not self.reasons and not self.serves:
                self._say(f"{name_of(child.spec)} {child.how_it_ended}; the job goes on without it")

    def _cause(self, child: Child) -> str:
        what = f"{name_of(child.spec)} on {self.settings.host} {child.how_it_ended}"
        if "stop" not in self.reasons:
            why = oom.explain(self.memory, oom.read())
            return f"{what}: {why}" if why else what
        if child.signal_name == "SIGKILL" and self.give_up_at < float("inf"):
            what += f", because it was still running {self.settings.stop_grace:g} s later"
        return f"stopped by {signal_name(signals.received()[0])}: {what}"

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
        self.console.stderr.write(f"dlc: {text}\n".encode("utf-8", "replace"))


def _list(pids: list[int]) -> str:
    shown = ", ".join(descendants.describe(pid) for pid in pids[:5])
    return shown + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")
