"""Waits for the job's other hosts, to join and to be ready, and says for whom."""

from __future__ import annotations

import sys
import time

from launch import signals
from launch.base.errors import CONFIG, STOPPED, UNAVAILABLE, Failure, LaunchError, Outcome, Verdict
from launch.coordination.leader_scout import LeaderScout
from launch.coordination.member import NEWS_SECONDS, Member
from launch.coordination.membership import MemberConfig, as_verdict, list_hosts
from launch.coordination.sockets import SAME_TOKEN
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any


LOOK_SECONDS = 0.02
# Between looks of a host whose part is over
STAY_SECONDS = 0.2
# Until the first line that says who is missing, and between two of them
FIRST_REPORT_SECONDS, REPORT_SECONDS = 1.0, 15.0
RESOLVE_SECONDS = 2.0
# For another host to hear that it is not alone in leading, or to ask whom this one follows
TELL_SECONDS = 5.0
# 128 + SIGTERM: another host got the signal
STOP_CODE = 143


class ProgressNotes:
    """When to say once more who is missing."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_REPORT_SECONDS

    def is_due(self) -> bool:
        """Return True once per interval."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + REPORT_SECONDS
        return True


def join(config: MemberConfig, facts: dict[str, Any], timeout: float) -> Member:
    """Join the group with `facts` about this host; come back when its hosts have: `facts` of each are known then.

    Raises LaunchError (UNAVAILABLE) naming the hosts that did not join within `timeout` seconds, or saying why no wait
    helps, and StopRequested. The others are told, so that the job ends on all of them.
    """
    group = Member(config)
    group.start(facts)
    try:
        _wait_for_all(group, timeout)
    except LaunchError as error:
        leave_early(group, error)
        raise
    except signals.StopRequested as stop:
        leave_early(group, stop)
        raise
    return group


def leave_early(group: Member, error: LaunchError | signals.StopRequested) -> None:
    """Tell the group why this host's part ends before it began, and go."""
    host = group.config.host
    if isinstance(error, signals.StopRequested):
        group.tell_stopping(error.signum)
        group.report(Failure(str(error), host=host, exit_code=error.exit_code), STOPPED)
    else:
        group.report(Failure(str(error), host=host, exit_code=error.exit_code))
    error.__dict__["told"] = True
    group.close()


def wait_until_ready(group: Member) -> Outcome | None:
    """Say that this host is ready, and come back when all are; what ended the job instead, None if nothing did.

    So the meeting points of torchrun and gloo, which give up by themselves, never see hosts that are minutes apart.
    Raises StopRequested.
    """
    group.tell_ready()
    notes = ProgressNotes()
    while not group.may_start:
        verdict = group.verdict()
        if verdict:
            if verdict.outcome.cause:
                # Nothing runs here that could be seen to end
                _say(verdict.outcome.cause)
            return verdict.outcome
        if group.stopping_host:
            cause = f"stopped before any process was started: {group.stopping_host} was asked to stop"
            group.report(None, STOPPED)
            return Outcome(STOP_CODE, Failure(cause, host=group.config.host, exit_code=STOP_CODE))
        if notes.is_due():
            _say(f"ready; waiting for {_list_missing(group)} to install what the job needs")
        signals.sleep(LOOK_SECONDS)
    group.close_probe_listener()
    return None


def await_end(group: Member, own: Outcome) -> Outcome:
    """Return how the job ends after its data host here failed and another one took over; `own` if none does."""
    told = own.failure is not None and own.failure.host == group.config.host and not own.stopped
    if not (told and group.config.rules.is_data_host(group.config.host)):
        return own
    deadline = time.monotonic() + NEWS_SECONDS
    try:
        while not (group.end or group.has_to_restart or group.stopping_host or group.failure_is_tolerated):
            if time.monotonic() >= deadline:
                return own
            signals.sleep(LOOK_SECONDS)
        if not group.failure_is_tolerated:
            return own
        _say("the job goes on: other data hosts take over from this one, which waits for the end")
        while not (group.end or group.has_to_restart or group.stopping_host):
            signals.sleep(STAY_SECONDS)
    except signals.StopRequested as stop:
        group.tell_stopping(stop.signum)
    if group.stopping_host:
        # There is nothing to save here
        return Outcome(0, stopped=True)
    return _end_after_loss(as_verdict(group.end), own) if group.end else own


def _end_after_loss(verdict: Verdict, own: Outcome) -> Outcome:
    """Return the job's end. This host's failure is its reason only if all that could take over failed too."""
    first = verdict.outcome.failure
    if first is None:
        return verdict.outcome
    if own.failure is None or own.failure.host == first.host:
        return own
    return verdict.outcome._replace(failure=first._replace(cause=f"{first.cause}; before that {own.cause}"))


def _wait_for_all(group: Member, timeout: float) -> None:
    def to_ask() -> Collection[str]:
        """List whom the leader misses; another host the leader, until it has met it."""
        if group.config.is_leader:
            return group.missing
        return () if group.missing or group.facts else (group.config.rules.leader,)

    scout = LeaderScout(group.config, to_ask)
    scout.start()
    deadline = time.monotonic() + timeout
    notes = ProgressNotes()
    try:
        while not group.facts:
            if scout.found[0]:
                raise _tell_other_leader(group, *scout.found)
            if group.end:
                raise LaunchError(group.end.exit_code or UNAVAILABLE, as_verdict(group.end).outcome.cause)
            if group.stopping_host:
                raise LaunchError(STOP_CODE, f"stopped: {group.stopping_host} was asked to stop")
            if group.leader.why_unreachable:
                raise LaunchError(UNAVAILABLE, group.leader.why_unreachable, remedy=group.leader.remedy)
            if time.monotonic() >= deadline:
                raise _timeout_error(group, timeout)
            if notes.is_due():
                _say(_whom_we_wait_for(group))
            signals.sleep(LOOK_SECONDS)
    finally:
        scout.stop()


def _tell_other_leader(group: Member, host: str, other: str) -> LaunchError:
    """Tell `other`, which `host` follows, and those that joined it, why the job ends; return the error for this host.

    Another host that does not lead asks for it meanwhile.
    """
    config = group.config
    error = LaunchError(
        CONFIG,
        "the hosts were given different lists of hosts, so they do not agree on who leads",
        expected="the same order of hosts on each, whose first one leads",
        found=f"{config.rules.leader} is the first on {config.host}, and {other} on {host}",
        remedy="give each the same resourceconfig.json (or DLC_HOSTS), changed in current_host (DLC_RANK) alone",
    )
    rules = config.rules._replace(members=(other, *(host for host in config.rules.members if host != other)))
    messenger = Member(config._replace(rules=rules, probe_port=None, program_files={}))
    if other != config.host:
        messenger.start(None)
        messenger.report(Failure(str(error), host=config.host, exit_code=error.exit_code))
    deadline = time.monotonic() + TELL_SECONDS
    while not messenger.is_delivered and time.monotonic() < deadline and not signals.received():
        time.sleep(LOOK_SECONDS)
    messenger.close()
    return error


def _whom_we_wait_for(group: Member) -> str:
    if not group.missing:
        whom = "the other hosts" if group.config.is_leader else group.config.rules.leader
        return f"waiting for {whom}: {group.leader.trouble}"
    nameless = host_addresses.find_unresolved(group.missing, RESOLVE_SECONDS) if group.config.is_leader else ()
    text = (
        f"waiting for {_list_missing(group)}, {group.missing_count} of the job's {len(group.config.rules.hosts)} hosts"
    )
    return "; ".join([text, *([f"{list_hosts(list(nameless))} does not resolve"] if nameless else []), *group.claims()])


def _list_missing(group: Member) -> str:
    # What is known may be older than this host's own word
    others = [host for host in group.missing if host != group.config.host]
    more = group.missing_count - len(group.missing)
    return (", ".join(others) + (f" and {more} more" if more else "")) or "the other hosts"


def _timeout_error(group: Member, timeout: float) -> LaunchError:
    if group.missing:
        what = f"{_list_missing(group)} did not join the job within {timeout:g} s"
        found = "; ".join(group.claims())
    else:
        leader = group.config.rules.leader
        what = f"{leader} could not be reached on port {group.config.port} within {timeout:g} s"
        found = group.leader.trouble
    remedy = "see those hosts' logs, let the hosts reach each other on every port, or raise DLC_PEER_TIMEOUT"
    return LaunchError(UNAVAILABLE, what, found=found, remedy=f"{SAME_TOKEN}; {remedy}" if group.claims() else remedy)


def _say(text: str) -> None:
    print(f"dlc: {text}", file=sys.stderr, flush=True)
