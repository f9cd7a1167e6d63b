"""Who is in the group, ready, done or lost, and when the group has ended. Pure; imports base."""

from __future__ import annotations

import base64
import json
import zlib

from launch.base.compat import NamedTuple
from launch.base.errors import FAILED, STOPPED, UNAVAILABLE, Failure, Outcome, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any


# Characters of a cause, and of the last lines, that travel to the other hosts
LONGEST_TEXT = 4000
# Hosts that a message names; of the others it tells the number
MOST_NAMED = 20


class GroupEnd(NamedTuple):
    """How the group ended, as every host is told."""

    ok: bool
    exit_code: int = 0
    # The host that failed first
    host: str = ""
    cause: str = ""
    last_lines: tuple[str, ...] = ()
    # Of a bad end: FAILED, STOPPED, HUNG; of a good one: STOPPED if the job was asked to stop
    kind: str = FAILED

    def as_message(self) -> dict[str, Any]:
        """Return the fields, for the channel."""
        return self._asdict()

    @staticmethod
    def of_message(fields: dict[str, Any]) -> GroupEnd:
        """Make the end from the fields of a message."""
        return GroupEnd(**{**fields, "last_lines": tuple(fields["last_lines"])})


def end_of(failure: Failure, kind: str) -> GroupEnd:
    """Return the group's end as one host's failure makes it."""
    lines = "\n".join(failure.last_lines)[-LONGEST_TEXT:]
    last_lines = tuple(lines.split("\n")) if lines else ()
    return GroupEnd(False, failure.exit_code, failure.host, failure.cause[:LONGEST_TEXT], last_lines, kind)


class GroupRules(NamedTuple):
    """Who makes up the group, and what it bears."""

    # All of the job
    hosts: tuple[str, ...]
    # Hosts whose ends are the job's; the first is the leader and the coordinator
    members: tuple[str, ...]
    # Of an elastic job: so many hosts are enough, and they may change; 0: all hosts, always
    least: int = 0
    # How often the hosts start their processes again after a failure (DLC_MAX_RESTARTS)
    restarts: int = 0
    # Hosts that are no members, and can take over from each other
    data_groups: tuple[tuple[str, ...], ...] = ()
    # If true, any data program may fail (DLC_DATA_HOSTS_MAY_FAIL); else a program that declared it
    any_data_program: bool = False

    def is_data_host(self, host: str) -> bool:
        """Return whether this is a data host that others may take over from."""
        return any(host in group for group in self.data_groups)

    @property
    def leader(self) -> str:
        """Return the host that the others connect to."""
        return self.members[0]


class MemberConfig(NamedTuple):
    """What a host needs to know to join. Durations in seconds."""

    host: str
    rules: GroupRules
    key: bytes
    port: int
    heartbeat: float
    interface: str = ""
    # The port at which other hosts try whether they reach this one, 0 for any
    probe_port: int | None = None
    # What this host's program may say (base/paths.py) -> the file that says it
    program_files: Mapping[str, str] = {}
    # Where this host's programs find which hosts have ended (base/paths.py); empty: nobody asks
    ended_file: str = ""

    @property
    def is_leader(self) -> bool:
        """Return whether the coordinator is here."""
        return self.host == self.rules.leader


def end_without_leader(config: MemberConfig, how: str, told: Collection[str]) -> GroupEnd:
    """Return how a host ends that can no longer hear its leader; `told`: what it has said, if the processes run.

    A data host that others take over from does not know how the job ends, and its own end must not decide that.
    """
    rules = config.rules
    cause = f"{rules.leader}, {how}"
    if not (told and rules.is_data_host(config.host) and (rules.any_data_program or "replaceable" in told)):
        return GroupEnd(False, UNAVAILABLE, rules.leader, cause)
    return GroupEnd(True, cause=f"{cause}; this host only serves data, so how the job ends is said by those that train")


class Membership:
    """Kept by the coordinator.

    The group has ended well when every member is done that does not serve the others, and badly with the first host
    that failed or vanished, for a job needs all its hosts. Four things change that: while restarts are left, a failure
    begins a new generation instead; after a stop nobody is hurried, and the group ends when every member's part has; an
    elastic job goes on without a host that vanished or was stopped, unless it is the leader; one data host may take
    over from another (Losses).
    """

    def __init__(self, rules: GroupRules) -> None:
        self.rules = rules
        # Of the hosts that are here
        self.facts: dict[str, dict[str, Any]] = {}
        # To start the processes of this generation
        self.ready: set[str] = set()
        self.done: set[str] = set()
        # Hosts whose program serves others, and so does not end before them
        self.serving: set[str] = set()
        # Hosts that need not stay and have gone
        self.left: set[str] = set()
        # The first that was asked to stop: the job is stopping
        self.stopped_host = ""
        # The first process that this stop ended, as its host said it
        self.ended_by_stop = ""
        self.losses = DataHostLosses(rules)
        self.generation = 0
        self.end: GroupEnd | None = None
        # host -> which of its launchers is here
        self._instances: dict[str, str] = {}
        # Hosts of an elastic job that were asked to stop
        self._leaving: set[str] = set()
        # After a stop
        self._first_failure: GroupEnd | None = None

    @property
    def missing(self) -> list[str]:
        """List the hosts that the group still waits for: to join, then to be ready."""
        if not self.has_met:
            return sorted(set(self.rules.hosts) - self.facts.keys())
        return sorted(self.facts.keys() - self.ready - self.left)

    @property
    def through(self) -> list[str]:
        """List hosts that ended for good, first those that the job's end does not wait for; as many as are named."""
        ended, members = self.done - self._leaving, set(self.rules.members)
        return [*sorted(ended - members), *sorted(ended & members)][:MOST_NAMED]

    @property
    def has_met(self) -> bool:
        """Return whether as many hosts are here as the job needs to begin."""
        return len(self.facts) >= (self.rules.least or len(self.rules.hosts))

    @property
    def all_ready(self) -> bool:
        """Return whether the hosts may start their processes."""
        return self.has_met and self.facts.keys() <= self.ready | self.left

    def is_another_launcher(self, host: str, instance: str) -> bool:
        """Return whether the host was here with another launcher: it was started again, or two hosts use one name."""
        return self._instances.get(host, instance) != instance

    def join(self, host: str, instance: str, facts: dict[str, Any] | None, was_lost: bool = False) -> str:
        """Let a host join, or join again after a broken connection. Return why it is refused, "" if it is not.

        `instance` tells a launcher that comes back from another one under the same name; `was_lost` if the other one is
        gone. Without facts it comes only to say why it fails, and the group does not count it as here.
        """
        if host not in self.rules.hosts:
            return f"{host} is none of this job's hosts"
        if self.is_another_launcher(host, instance):
            if not self.rules.least and not self._is_replaced(host):
                if not was_lost or host in self.done:
                    return f"{host} has joined already: two hosts use one name, or its container was started again"
                self._note_return(host)
            self._forget(host)
        self._instances[host] = instance
        if self.losses.take_back(host):
            self.left.discard(host)
        if facts is not None:
            self.facts[host] = facts
        return ""

    def note_ready(self, host: str, generation: int) -> None:
        """Note that a host has installed what it needs."""
        if generation == self.generation:
            self.ready.add(host)

    def note_done(self, host: str, generation: int) -> None:
        """Note that a host's part ended well, or after a stop with its state saved."""
        if generation == self.generation:
            self.done.add(host)
            self._look_for_the_end()

    def note_serving(self, host: str, generation: int) -> None:
        """Note that a host's program serves the others: its end is not waited for, unless all members serve."""
        if generation == self.generation:
            self.serving.add(host)
            self._look_for_the_end()

    def note_failure(self, host: str, end: GroupEnd, generation: int) -> None:
        """Note that a host's part ended badly; the first such end counts."""
        if generation != self.generation or host in self._leaving:
            return
        if self.stopped_host:
            self._first_failure = self._first_failure or end
            self.done.add(host)
            self._look_for_the_end()
        elif not self._tolerates(host, end):
            self._fail(self.losses.name_first_loss(host, end, self.done))

    def note_stopping(self, host: str) -> None:
        """Note that a host was asked to stop: so is the job. From an elastic job only this host goes."""
        if self.rules.least and host != self.rules.leader:
            self._leaving.add(host)
        elif not self.stopped_host:
            self.stopped_host = host
            self._first_failure = None

    def note_ended_by_stop(self, what: str) -> None:
        """Note that a stop ended a process; later failures of its peers are consequences."""
        if self.stopped_host:
            self.ended_by_stop = self.ended_by_stop or what

    def note_lost(self, host: str, how: str) -> None:
        """Note that a host has not been heard of for too long."""
        if self.rules.least and host != self.rules.leader:
            self.losses.news += [] if self.end else [f"{host} vanished: {how}; the elastic job goes on without it"]
            self._forget(host)
            self._look_for_the_end()
        elif host not in self.done:
            end = GroupEnd(False, UNAVAILABLE, host, f"{host} vanished: {how}")
            if self.stopped_host:
                self.note_failure(host, end, self.generation)
            elif self._tolerates(host, end, has_vanished=True):
                self.left.add(host)
            else:  # its container is gone: there is nothing to start again
                self.end = self.end or self.losses.name_first_loss(host, end, self.done)

    def restart_cause(self) -> GroupEnd | None:
        """Return the failure that began this generation."""
        return self._first_failure if self.generation and not self.stopped_host else None

    def _fail(self, end: GroupEnd) -> None:
        if self._may_restart(end):
            self.generation += 1
            for known in (self.done, self.ready, self.serving):
                known.clear()
            self.losses.restart()
            self._first_failure = end
        else:
            self.end = self.end or end

    def _tolerates(self, host: str, end: GroupEnd, has_vanished: bool = False) -> bool:
        """Return whether the job goes on without a data host. A failure before the processes run is no loss."""
        return self.end is None and self.all_ready and self.losses.tolerates(host, end, self.done, has_vanished)

    def _is_replaced(self, host: str) -> bool:
        """Return whether another launcher of this name belongs to a data host that was started again."""
        return self._tolerates(host, GroupEnd(False, UNAVAILABLE, host, f"{host} was started again"), has_vanished=True)

    def _note_return(self, host: str) -> None:
        """Note that a host's launcher was killed and has come back: its processes are gone, and have to start anew.

        Before the hosts have met, nobody knows the old launcher.
        """
        end = GroupEnd(False, UNAVAILABLE, host, f"{host} vanished: its launcher was killed, and started again")
        if self.stopped_host:
            self.note_failure(host, end, self.generation)
        elif self.has_met:
            self._fail(end)

    def _may_restart(self, end: GroupEnd) -> bool:
        """Return whether new processes can go better: only what went wrong in the processes themselves can."""
        return end.kind == FAILED and self.all_ready and self.generation < self.rules.restarts and not self.end

    def _forget(self, host: str) -> None:
        self.facts.pop(host, None)
        self._instances.pop(host, None)
        for known in (self.ready, self.done, self.serving, self.left, self._leaving):
            known.discard(host)

    def _look_for_the_end(self) -> None:
        members = set(self.rules.members) & (self.facts.keys() if self.rules.least else set(self.rules.members))
        members = members - self.serving or members
        if self.end is None and members and members <= self.done:
            failure = self._first_failure if self.stopped_host else None
            self.end = (failure or GroupEnd(True))._replace(kind=STOPPED if self.stopped_host else FAILED)


def as_verdict(end: GroupEnd) -> Verdict:
    """Return what the group's end means for a host."""
    if end.ok:
        was_stopped = end.kind == STOPPED
        return Verdict(Outcome(0, stopped=was_stopped), STOPPED if was_stopped else "", end.cause)
    where = "" if end.cause.startswith(end.host) else f" on {end.host}"
    failure = Failure(
        cause=f"the job failed{where}: {end.cause}",
        host=end.host,
        exit_code=end.exit_code or 1,
        last_lines=end.last_lines,
    )
    return Verdict(Outcome(failure.exit_code, failure), end.kind)


def list_hosts(hosts: list[str]) -> str:
    """Return the hosts as a message names them."""
    more = len(hosts) - MOST_NAMED
    return ", ".join(hosts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def pack_json(value: Any) -> str:
    """Make a value small that is sent to every host: the facts of a thousand hosts differ little."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 1)).decode()


def unpack_json(text: str) -> Any:
    """Undo `pack_json`, for a line whose MAC was right."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


class DataHostLosses:
    """Kept by the coordinator's membership: the data hosts that are gone and made up for."""

    def __init__(self, rules: GroupRules) -> None:
        # In the order in which they failed
        self.gone: dict[str, GroupEnd] = {}
        # That nobody has printed yet
        self.news: list[str] = []
        self._groups = rules.data_groups
        self._any_program = rules.any_data_program
        # Hosts whose program has said that others can take over
        self._replaceable: set[str] = set()
        # Of hosts that are gone: a host that came back would serve again
        self._vanished: set[str] = set()
        self._reasons: dict[str, GroupEnd] = {}  # what programs failed of first, also on hosts that came back

    def note_replaceable(self, host: str) -> None:
        """Note that the program of this data host says that others of its group can take over from it."""
        self._replaceable.add(host)

    def is_tolerable(self, host: str) -> bool:
        """Return whether this is a data host whose program keeps nothing that others lack."""
        return bool(self._group(host)) and (self._any_program or host in self._replaceable)

    def tolerates(self, host: str, end: GroupEnd, done: Collection[str], has_vanished: bool = False) -> bool:
        """Return whether the job goes on without a failed host: another host of its group, not `done`, serves."""
        if host not in self.gone:
            others = self._others(host, done)
            if not others or not self.is_tolerable(host):
                return False
            self.gone[host] = end
            if not has_vanished:
                self._reasons.setdefault(host, end)
            lines = [f"the job goes on without {host}, a data host: {end.cause}", *end.last_lines]
            self.news.append("\n  | ".join(lines) + f"\ndlc: what it served is up to {', '.join(others)}")
        if has_vanished:
            self._vanished.add(host)
        return True

    def name_first_loss(self, host: str, end: GroupEnd, done: Collection[str]) -> GroupEnd:
        """Name the group's first loss in the failure of its last data host, and take the code of that loss."""
        ends = (self._reasons, self.gone)
        first = next((known[other] for known in ends for other in known if other in self._group(host)), None)
        if first is None or self._others(host, done):
            return end
        return first._replace(cause=f"{first.cause}; no data host of its group is left, the last one: {end.cause}")

    def take_back(self, host: str) -> bool:
        """Return whether a host that joins had vanished; it serves again."""
        if host not in self._vanished:
            return False
        self._vanished.discard(host)
        del self.gone[host]
        self.news.append(f"{host}, a data host, has come back")
        return True

    def restart(self) -> None:
        """Forget the losses on hosts that are still there: all processes start again."""
        self._reasons.clear()
        self.gone = {host: end for host, end in self.gone.items() if host in self._vanished}

    def _group(self, host: str) -> tuple[str, ...]:
        return next((group for group in self._groups if host in group), ())

    def _others(self, host: str, done: Collection[str]) -> list[str]:
        """Return the other hosts of this data host's group that may still serve."""
        return [other for other in self._group(host) if other != host and other not in self.gone and other not in done]
