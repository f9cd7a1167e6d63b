"""Runs a host's processes to their end: output carried, stop signals passed on, first failure kept, nothing left."""

from __future__ import annotations

import signal
import time

from launch import signals
from launch.base.errors import FAILED, HUNG, STOPPED, UNAVAILABLE, Failure, Outcome, Verdict, signal_name
from launch.supervision import canary, oom, process_tree
from launch.supervision.child_process import ChildProcess, make_failure, make_start_failure, process_name
from launch.supervision.event_log import EventLog
from launch.supervision.failure_report import as_frame
from launch.supervision.killing import KILL_INTERVAL_SECONDS, KILL_SECONDS, TWICE, Killing
from launch.supervision.output import Console
from launch.supervision.rank_files import RankFolder, make_rank_folder
from launch.supervision.settings import Settings
from launch.supervision.stop_attribution import StopAttribution, behind_first, was_ended_by_stop
from launch.supervision.watches import ProgressWatch, load_watchdog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launch.base.process_spec import ProcessSpec
    from launch.supervision.graceful_stop import GracefulStop

GROUP_SECONDS = 2.0  # to hear from the group, when we failed, which host failed first
# From SIGTERM to SIGKILL for what was not told of a stop, when the grace ran out
LAST_CHANCE_SECONDS = 2.0
OUTPUT_SECONDS = 60.0  # for a slow reader at the end
# Between looks at the watches; at the main processes after a stop; if only output and signals are awaited
TICK_SECONDS, STOP_TICK_SECONDS, IDLE_SECONDS = 1.0, 0.1, 60.0
HANG_CODE = 124  # what timeout(1) answers


def supervise(specs: Sequence[ProcessSpec], settings: Settings | None = None) -> Outcome:
    """Start every process and come back when they and all their descendants have ended.

    The rest is ended (SIGTERM to every descendant, the grace, SIGKILL) after the first failure of an essential process,
    a hang, the group's end, or the end of all essential processes. A stop (a signal, another host's) goes to the main
    processes first (graceful_stop.py), and then to what they left. Without an essential process (a host that
    serves others) or as a member of a group, the run stays until the group ends. Raises nothing of its own: a process
    that cannot be started is a failure too (127 or 126, as in shells).
    """
    supervision = Supervisor(settings or Settings())
    if not supervision.is_stopped_already():
        supervision.start(specs)
        while supervision.step():
            pass
    return supervision.outcome()


class Supervisor:
    """The state of one run. It runs until there is a reason to end it, then until `kill_at`, then it kills."""

    def __init__(self, settings: Settings) -> None:
        process_tree.adopt_orphans()
        self.settings = settings
        self.group = settings.group
        self.console = Console([signals.fileno(), *([self.group.fileno()] if self.group else [])])
        self.watchdog = load_watchdog(settings.hang_timeout)
        self.memory = oom.read_memory()
        self.running: dict[int, ChildProcess] = {}
        self.early: list[str] = []  # essential ones that ended with 0
        self.failure: Failure | None = None
        self.verdict: Verdict | None = None  # the group's
        self.is_reported = False  # the group knows how our part ended
        self.heard = 0  # how many of signals.received() were acted upon
        self.stop = ""  # what asked this host to stop
        self.passed_on: list[int] = []  # stop signals that the main processes got, once each
        self.stopping: GracefulStop | None = None  # loaded only for a stop: most jobs are never stopped
        self.attribution = StopAttribution(self.group)  # of the stop
        # Anew for each run of the job's own processes; what prepares them has no ranks.
        self.events = EventLog(settings.log_folder, settings.host)
        self.ranks = RankFolder("" if settings.more_follows else make_rank_folder(settings.rank_folder))
        self.progress = ProgressWatch("" if settings.more_follows else settings.steps_folder, settings.progress_folder)
        self.reasons: list[str] = []  # why it ends: "stop", "failure", "verdict", "ended"
        self.kill_at = float("inf")
        self.killing = Killing()
        self.several = self.serves = False
        self.specs: Sequence[ProcessSpec] = ()
        self.left_running: tuple[str, ...] = ()

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        """Start them in order; the first that cannot be started ends the run."""
        self.specs, self.several = specs, len(specs) > 1
        self.serves = not any(spec.essential for spec in specs)
        prefixed = self.several if self.settings.prefix is None else self.settings.prefix
        if not self.settings.more_follows:
            self.events.record("ready")
            canary.start()
        for spec in specs:
            prefix = f"[{self.settings.host}:{spec.rank}] ".encode() if prefixed else b""
            try:
                child = ChildProcess(spec, self.console, prefix, self.events.open_log(spec.role, spec.rank))
            except (OSError, ValueError) as error:
                self._fail(make_start_failure(spec, self.settings.host, error))
                return
            self.running[child.pid] = child
            self.events.record("start", role=spec.role, rank=spec.rank, pid=child.pid)

    def step(self) -> bool:
        """Take one turn of the loop; False when there is nothing left to wait for."""
        self.console.turn(self._patience())
        signals.drain_wakeups()
        self._hear_requests()
        any_left = self._reap()
        if self.stopping and "ended" not in self.reasons:
            self.stopping.advance(self.running)
        self._look_for_a_hang()
        self._say(self.progress.look())
        self._hear_the_group()
        if self.stop:
            self.attribution.look_for_ended(self.ranks, self._news_bound())
        if "verdict" not in self.reasons and (failure := self.attribution.give_up(self._has_others())):
            self._fail(failure)
        if self.failure and not self.reasons:
            self._end("failure", self.settings.end_grace)
        if not self._is_working() and not self.attribution.awaiting:
            self._part_ended()
        if not any_left:
            return not self.reasons
        return time.monotonic() < self.kill_at or self._kill()

    def outcome(self) -> Outcome:
        """Return how it ended, when all output is out."""
        self._fail_if_killed()
        self._say(self.progress.look(is_last=True))
        if self.failure:
            failure = self._explained(self.failure)
            outcome = Outcome(failure.exit_code, failure)
        else:
            outcome = self.verdict.outcome if self.verdict and "verdict" in self.reasons else Outcome(0)
            outcome = outcome._replace(failure=outcome.failure and self.attribution.with_consequence(outcome.failure))
        if outcome.failure:
            self.console.stderr.write(as_frame(outcome.failure, with_lines=self.several).encode("utf-8", "replace"))
        self.console.finish(self._within_margin(OUTPUT_SECONDS, 0.2))
        return outcome._replace(stopped=bool(self.stop), left_running=self.left_running)

    def is_stopped_already(self) -> bool:
        """Return whether a stop was asked for before anything was started; then that is the failure."""
        self._hear_requests()
        if self.stop:
            cause = f"{self.stop} before any process was started"
            exit_code = 128 + (self.passed_on or [signal.SIGTERM])[0]
            self._fail(Failure(cause, host=self.settings.host, exit_code=exit_code), STOPPED)
        return bool(self.stop)

    def _is_working(self) -> bool:
        """Return whether an essential process runs, or after a stop something that the script started."""
        if any(child.spec.essential for child in self.running.values()):
            return True
        return self.stopping is not None and "ended" not in self.reasons and self.stopping.is_awaited

    def _has_others(self) -> bool:
        """Return whether our failure may follow from another process's, here or elsewhere, and from no stop."""
        return not self.stop and (self.group is not None or self._is_working())

    def _part_ended(self) -> None:
        """End the run, as no essential process runs; a host that serves, or is a member, stays for the group's end."""
        self._fail_if_killed()
        group, well = self.group, not self.failure and not self.verdict
        if group and well and not self.settings.more_follows:
            if not self.serves:
                self._tell(None, STOPPED if self.stop else FAILED)
            serves = self.serves and self.reasons in ([], ["stop"])  # the other hosts' ranks may still save
            if serves or (not self.reasons and group.must_stay):
                return
        self._end("ended", self.settings.end_grace)

    def _fail(self, failure: Failure, kind: str = FAILED) -> None:
        """Keep the first failure; tell the group at once, or when no other comes that explains it."""
        if self.failure is None and not (self._has_others() and self.attribution.is_awaited(failure)):
            self.failure = failure = self.attribution.with_consequence(failure)
            self.attribution.note_error(self._news_bound())
            facts = {"rank": failure.rank, "exit_code": failure.exit_code}
            self.events.record("failure", kind=kind, cause=failure.cause, **facts)
            self._tell(failure, kind)

    def _fail_if_killed(self) -> None:
        """Let a stopped run fail in which a process was killed, or could not be reaped, if nothing else says so."""
        unreaped = [pid for pid, child in self.running.items() if child.spec.essential]
        if self.stop and not self.failure and (unreaped or (self.killing.names and "ended" not in self.reasons)):
            names = process_tree.list_processes(unreaped)
            self._fail(self.killing.failure(self.stop, self.settings.host, names), STOPPED)

    def _tell(self, failure: Failure | None, kind: str = FAILED) -> None:
        if self.group and not self.is_reported:
            self.is_reported = True
            self.group.report(failure, kind)

    def _hear_the_group(self) -> None:
        """End this host's part with the group, unless it ends already for a reason of its own."""
        if self.group is None or self.verdict is not None:
            return
        if left := self.ranks.first_to_leave():
            self.group.tell_ended_early(left=left)
        self.verdict = self.group.verdict()
        if self.verdict is None or self.failure or self.stop:
            return
        if self.verdict.kind == STOPPED:
            self._stop(signal.SIGTERM, self.verdict.outcome.cause)
            return
        failed = self.verdict.outcome.failure
        well = self.verdict.word or "the group of hosts has ended well"
        self._say("another host ended the job, so what runs here is ended" if failed else well)
        if self.verdict.kind == HUNG and self.running:
            self.verdict = Verdict(self._with_stacks(self.verdict.outcome), HUNG)
        self._end("verdict", self.settings.end_grace)

    def _explained(self, own: Failure) -> Failure:
        """Return our failure with what it may only follow from: another host's earlier one, or what the stop ended."""
        group, deadline = self.group, time.monotonic()
        if self.is_reported and not (self.stop and was_ended_by_stop(own.exit_code)):
            deadline += self._news_bound()
        while group:
            self.attribution.note_ended(group.ended_by_stop())
            if group.failure_is_tolerated:
                return own
            if self.verdict or self.attribution.ended or time.monotonic() >= deadline:
                break
            self.console.turn(KILL_INTERVAL_SECONDS)
            self.verdict = group.verdict()
        elsewhere = group.stopping_host if group and not (self.verdict and self.verdict.kind == FAILED) else ""
        why = self.stop or (elsewhere and f"stopped because {elsewhere} was asked to stop")
        if why:
            return self.attribution.explain(own, why, (self.passed_on or [signal.SIGTERM])[0])
        return behind_first(own, self.verdict.outcome.failure if self.verdict else None, self.settings.host)

    def _look_for_a_hang(self) -> None:
        is_sought = self.watchdog and not self.reasons and not self.failure and self._is_working()
        if not (self.watchdog and is_sought and self.watchdog.is_hung(self.console.bytes_read)):
            return
        cause = self.watchdog.describe(self.settings.host)
        self._say(cause)
        failure = Failure(cause, host=self.settings.host, exit_code=HANG_CODE)
        self._tell(failure, HUNG)  # before the stacks are there: the other hosts collect theirs meanwhile
        self._fail(self._with_stacks(Outcome(HANG_CODE, failure)).failure or failure)

    def _with_stacks(self, outcome: Outcome) -> Outcome:
        from launch.supervision import hang  # rarely needed

        specs = {pid: child.spec for pid, child in self.running.items()}
        return hang.add_stacks(outcome, specs, self.console, self.ranks)

    def _patience(self) -> float:
        """Return the seconds to wait for something to happen."""
        if self.killing.why:
            return KILL_INTERVAL_SECONDS
        until_kill = self.attribution.limit_wait(self.kill_at - time.monotonic())
        if self.stop:  # nobody wakes us when a main process below a starter ends
            return max(0.0, min(until_kill, STOP_TICK_SECONDS))
        idle = TICK_SECONDS if self.settings.hang_timeout else self.progress.limit_wait(IDLE_SECONDS)
        return max(0.0, min(until_kill, idle))

    def _hear_requests(self) -> None:
        """Act upon new signals, and upon the stop of another host. A second SIGINT means now."""
        received = signals.received()
        new, self.heard = received[self.heard :], len(received)
        for signum in new:
            if self.group:
                self.group.tell_stopping(signum)
            self._stop(signum, f"stopped by {signal_name(signum)}")
        if elsewhere := self.group.stopping_host if self.group and not self.stop else "":
            self._stop(signal.SIGTERM, f"stopped because {elsewhere} was asked to stop")
        for signum in signals.take_relayed():
            process_tree.signal_all(signum, catchers_only=True)
        if received.count(signal.SIGINT) > 1:
            self.kill_at = 0.0

    def _stop(self, signum: int, why: str) -> None:
        """Tell the main processes, each kind of signal once; the end of all else waits for theirs."""
        if signum in self.passed_on or (self.reasons and not self.stop):
            return
        self.stop = self.stop or why
        self.events.record("stop", cause=why)
        self.passed_on.append(signum)
        if not self.running:
            return
        from launch.supervision import graceful_stop

        self.ranks.mark_stopping()
        self._say(graceful_stop.describe_stop(why, self.settings))
        essential = [pid for pid, child in self.running.items() if child.spec.essential]
        self.stopping = self.stopping or graceful_stop.GracefulStop(self.settings)
        self.stopping.tell(signum, essential, list(self.running) if self.serves else ())
        if "stop" not in self.reasons:
            self.reasons.append("stop")
            self.kill_at = min(self.kill_at, time.monotonic() + self.settings.stop_grace)

    def _end(self, reason: str, grace: float) -> None:
        """Begin the end, or bring it forward: SIGTERM to all that has not got one."""
        if reason in self.reasons:
            return
        self._note_left()
        if not self.reasons or self.reasons == ["stop"]:
            self.stopping.tell_rest() if self.stopping else process_tree.signal_all(signal.SIGTERM)
        self.reasons.append(reason)
        self.kill_at = min(self.kill_at, time.monotonic() + grace)

    def _note_left(self) -> None:
        """Say which programs a script that ended well had left running: they are ended now."""
        failed = self.failure or (self.verdict and self.verdict.outcome.failure)
        is_well = not (self.reasons or failed or self.settings.more_follows)  # else it was us who ended its parent
        if is_well and (orphans := process_tree.find_orphans(but=self.running)):
            from launch.supervision import left_behind

            line, self.left_running = left_behind.describe_left(orphans, self.specs)
            self._say(line)

    def _reap(self) -> bool:
        """Collect what has ended; False when no child is left. Several at once: a signal's victim is the cause."""
        statuses, any_left = process_tree.reap_children()
        ended = [(self.running.pop(pid), status) for pid, status in statuses if pid in self.running]
        for child, status in ended:
            child.ended(status)
            facts = {"rank": child.spec.rank, "exit_code": child.exit_code}
            self.events.record("end", role=child.spec.role, pid=child.pid, **facts)
            if self.stop and was_ended_by_stop(child.exit_code):
                what = f"{process_name(child.spec)} on {self.settings.host} {child.how_it_ended}"
                self.attribution.note_ended_here(what, explains=not self.failure)
        if ended and "verdict" not in self.reasons:
            self._judge([child for child, _ in ended])
        return any_left

    def _judge(self, ended: list[ChildProcess]) -> None:
        """Decide whether the end of these processes is a failure of the run."""
        if self.stop and (ranks := self.ranks.read_ends()):
            from launch.supervision.failure_cause import cause_after_stop

            grace = self.settings.stop_grace if "grace" in self.reasons else 0.0
            failure = cause_after_stop(ranks, self.stop, grace)
            if failure:
                self._fail(failure, STOPPED)
            return
        failed = [child for child in ended if child.spec.essential and child.exit_code != 0]
        if self._is_working() and not self.reasons:
            failed += [child for child in ended if child.spec.vital]
        if self.serves and not self.running and not self.reasons:
            failed = ended  # the other hosts still needed it, even if it thinks that it ended well
        if failed:
            from launch.supervision.failure_cause import is_consequence  # only jobs that failed need it

            self.console.drain([stream for child in failed for stream in (child.stdout, child.stderr)])
            first = min(failed, key=lambda child: (is_consequence(child.last_lines()), not child.signal_name))
            kind = STOPPED if self.stop else FAILED
            early = () if self.stop else self.early
            failure = make_failure(first, self.settings, self._cause(first), self.ranks.read_ends(), early)
            # 0: a process that serves other hosts ended before them
            self._fail(failure._replace(exit_code=failure.exit_code or UNAVAILABLE), kind)
        self.early += [process_name(child.spec) for child in ended if child.spec.essential and not child.exit_code]
        for child in ended:
            ends_alone = not child.spec.essential and not child.spec.vital and not self.serves
            if ends_alone and child.exit_code != 0 and not self.reasons:
                self._say(f"{process_name(child.spec)} {child.how_it_ended}; the job goes on without it")

    def _cause(self, child: ChildProcess) -> str:
        what = f"{process_name(child.spec)} on {self.settings.host} {child.how_it_ended}"
        if child.spec.failure:
            what = f"{child.spec.failure}: {what}"
        if not self.stop:
            why = oom.explain_kill(self.memory, oom.read_memory())
            return f"{what}: {why}" if why else what
        if child.signal_name == "SIGKILL" and self.killing.why:
            what += f", because {self.killing.why}"
        return f"{self.stop}: {what}"

    def _kill(self) -> bool:
        """Kill all that is left; return whether to go on: after a stop all else is told first, as the grace ran out."""
        if self.stop and "ended" not in self.reasons:
            what = f"what was still running on {self.settings.host} was killed"
            self.attribution.note_ended_here(what, explains=not self.failure)
        if self.reasons == ["stop"] and self.kill_at:
            self._end("grace", float("inf"))
            self.kill_at = time.monotonic() + self._within_margin(LAST_CHANCE_SECONDS, 0.2)
            return True
        has_begun = bool(self.killing.why)
        why = f"it was still running {self.settings.stop_grace:g} s later" if self.kill_at else TWICE
        self.killing.strike(why, self._within_margin(KILL_SECONDS, 0.3))
        if not has_begun and self.killing.names:
            self._say(f"killed, {'still running after the grace' if self.kill_at else TWICE}: {self.killing.names}")
        if self.killing.is_over:
            self._say(f"cannot be killed, they hang in the kernel: {self.killing.names}")
        return not self.killing.is_over

    def _news_bound(self) -> float:
        """Return the seconds to hear what our failure follows from: fewer than others have before they are killed."""
        return self._within_margin(self.settings.stop_grace / 2, 0.5) if self.stop else GROUP_SECONDS

    def _within_margin(self, bound: float, share: float) -> float:
        """Keep to the stop's margin: the place's own SIGKILL must not come before we have said all."""
        return min(bound, share * self.settings.stop_margin) if self.stop else bound

    def _say(self, text: str) -> None:
        """Write a line of our own, in order with the processes' output."""
        self.console.stderr.write(f"dlc: {text}\n".encode("utf-8", "replace") if text else b"")
