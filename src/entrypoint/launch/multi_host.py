"""A host's run as a part of the group: meeting, hearing how others end, telling them what ended this one early."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable

from launch import signals
from launch.base.errors import CONFIG, FAILED, STOPPED, Failure, LaunchError, Outcome
from launch.base.files import make_private_folder
from launch.base.paths import PROGRAM_FILES
from launch.base.settings import (
    GROUP_PORT,
    HOROVOD_PORT,
    JOB_TOKEN,
    MASTER_PORT,
    port_of,
    read_choice,
    read_count,
    read_seconds,
)
from launch.coordination import rendezvous
from launch.coordination.channel import KEY_REMEDY, is_guessable_key, job_key, purpose_key
from launch.coordination.member import Group
from launch.coordination.membership import Place, Rules, named
from launch.coordination.sockets import require_free
from launch.discovery import discover, host_addresses
from launch.plan.network import Network
from launch.plan.request import Request, read_request
from launch.plan.strategies import torchrun
from launch.preflight import consistency, reachability
from launch.preflight.host_checks import Finding
from launch.supervision.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from launch.base.paths import Paths


HEARTBEAT = 60.0  # seconds of silence after which a host counts as vanished (DLC_HEARTBEAT_TIMEOUT)
JOIN_TIMEOUT = 900.0  # seconds for all hosts to join: one may pull its image for minutes (DLC_PEER_TIMEOUT)
ELASTIC = ("torchrun", "xla")  # strategies below torchrun, whose rendezvous can be elastic

# Where ranks meet on the first host; and what says that it is elsewhere.
MEETING_PORTS = {"torchrun": MASTER_PORT, "xla": MASTER_PORT, "horovod": HOROVOD_PORT}
MEETING_POINT = ("MASTER_ADDR", "MASTER_PORT", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ENDPOINT")

Run = Callable[[Request, Settings, Group], Outcome]


def in_group(request: Request, settings: Settings, run: Run) -> Outcome:
    """Wait for the job's hosts, join them, and `run` with the group in its settings and their addresses in its request.

    What goes wrong before a process starts is told to the others too. Raises what `run` raises, and LaunchError where a
    host is not there in time or the hosts do not fit together.
    """
    rules = rules_of(request)
    if rules is None:  # the only host of a group that is a job of its own
        raise ValueError("a host alone has no group")
    facts = consistency.facts(request)
    if request.starts_remotely:
        require_token(request.environ)
    elif is_guessable_key(request.environ):
        _say(f"the hosts know each other by their names alone, which is no secret; {KEY_REMEDY}")
    _check_meeting_point(request)  # before the meeting: after it the other hosts start
    group = rendezvous.join(_place(request, rules), facts, _timeout(request))
    try:
        consistency.check(request, group.facts)
        reachability.check(request, group)
        request = request._replace(network=_network(request, group))
        joined = settings._replace(group=group)
        outcome = run(request, joined, group)
    except (LaunchError, signals.StopRequested) as error:
        rendezvous.leave(group, error)
        raise
    except BaseException:
        group.close()
        raise
    group.close()
    return outcome


def preflight_only(request: Request) -> int:
    """`--preflight`: every host of the job meets the others and prints what does not fit; 0, or 78 for an error."""
    started = time.monotonic()
    known = {request.cluster.current_host: consistency.facts(request)}
    unreached: list[Finding] = []
    hosts = request.group_hosts or request.cluster.hosts
    if len(hosts) > 1:
        group = rendezvous.join(_place(request, Rules(hosts, hosts)), consistency.facts(request), _timeout(request))
        known = group.facts
        try:
            unreached = reachability.exchange(group, reachability.find(request, group))
        except signals.StopRequested as stop:
            rendezvous.leave(group, stop)
            raise
        group.close()
    text, is_well = consistency.report(known, time.monotonic() - started, unreached)
    print(text)
    return 0 if is_well else CONFIG


def rules_of(request: Request) -> Rules | None:
    """The group that this host is part of; None where it is alone. Raises LaunchError: a switch is wrong."""
    if not request.members:
        return None
    elastic = (
        torchrun.read_elastic(request.environ) if request.strategy and request.strategy.strategy in ELASTIC else None
    )
    if elastic:
        rules = Rules(request.group_hosts, request.members, least=min(elastic.least, len(request.group_hosts)))
    else:
        restarts = read_count(request.environ, "DLC_MAX_RESTARTS", 0)
        rules = Rules(request.group_hosts, request.members, restarts=restarts)
    may_fail = read_choice(request.environ, "DLC_DATA_HOSTS_MAY_FAIL")
    if may_fail is False:
        return rules
    return rules._replace(data_groups=request.data_groups, any_data_program=bool(may_fail))


def _place(request: Request, rules: Rules) -> Place:
    environ, cluster = request.environ, request.cluster
    return Place(
        cluster.current_host,
        rules,
        job_key(environ, rules.hosts),
        port_of(environ, GROUP_PORT),
        read_seconds(environ, "DLC_HEARTBEAT_TIMEOUT", HEARTBEAT),
        cluster.network_interface,
        reachability.door_port(request, rules),
        _words(request, rules),
    )


def _words(request: Request, rules: Rules) -> dict[str, str]:
    """What this host's program can say, and where; empty where it need not or cannot.

    That others take over from it: with a strategy, outside of its groups. That it serves them: without a strategy,
    where each host counts until it is known, in a group that is not said to train.
    """
    cluster = request.cluster
    may_serve = not request.strategy and len(cluster.groups) > 1 and cluster.current_group not in request.groups
    may_say = {
        "replaceable": rules.serves(cluster.current_host) and not rules.any_data_program,
        "serves": may_serve and cluster.current_host in rules.members,
    }
    if not any(may_say.values()):
        return {}
    try:
        make_private_folder(request.run_dir)
    except LaunchError:
        return {}
    files = {what: f"{request.run_dir}/{what}-{os.getpid()}" for what in PROGRAM_FILES if may_say[what]}
    for path in files.values():
        with contextlib.suppress(OSError):
            os.unlink(path)  # of an earlier run, in a container that is started again
    return files


def _check_meeting_point(request: Request) -> None:
    """Raise LaunchError where ranks are to meet on this host at a port that is taken: they would try for minutes.

    Where the user has said where they meet it is the user's own.
    """
    strategy = request.strategy.strategy if request.strategy else ""
    if strategy not in MEETING_PORTS or request.cluster.current_host != request.hosts[0]:
        return
    if any(request.environ.get(name) for name in MEETING_POINT):
        return
    switch = MEETING_PORTS[strategy]
    require_free(port_of(request.environ, switch), switch, f"the ranks of {strategy}")


def _network(request: Request, group: Group) -> Network:
    """Where the others are reached: by their names, and by the addresses they came from where a name means nothing."""
    own = request.cluster.current_host
    nameless = host_addresses.find_unresolved(group.facts, rendezvous.RESOLVE_BOUND)
    others = [host for host in nameless if host != own]
    if others:
        _say(f"{named(others)} does not resolve; the address it came from is used where that is possible")
    known = {host: facts["address"] for host, facts in group.facts.items() if facts.get("address")}
    listen = host_addresses.own_addresses(own, request.cluster.network_interface)
    return Network(
        addresses={host: known[host] for host in nameless if host in known},
        sources=known,
        listen=listen,
        secret=purpose_key(group.place.key, "ranks"),
        data_token=purpose_key(group.place.key, "data"),
        words=group.place.words,
    )


def _timeout(request: Request) -> float:
    return read_seconds(request.environ, "DLC_PEER_TIMEOUT", JOIN_TIMEOUT)


def _say(text: str) -> None:
    print(f"dlc: {text}", file=sys.stderr, flush=True)


BOUND = 20.0  # seconds for the others to come and hear it; they may start a little later
STOP_BOUND = 3.0  # seconds where the platform ends this host soon
LAST_HEARTBEAT = 5.0  # seconds
LOOK = 0.02  # seconds


def tell(environ: Mapping[str, str], paths: Paths, failure: Failure) -> None:
    """Tell the group, as far as it can be known without what failed; nothing for a host alone. Raises nothing."""
    with contextlib.suppress(LaunchError, OSError, signals.StopRequested):
        cluster = discover.discover(environ, paths)
        rules = _rules(environ, cluster.hosts)
        key = job_key(environ, rules.hosts)
        port = port_of(environ, GROUP_PORT)
        place = Place(cluster.current_host, rules, key, port, LAST_HEARTBEAT, cluster.network_interface)
        if cluster.current_host in rules.hosts:
            _tell(Group(place), failure)


def _rules(environ: Mapping[str, str], hosts: tuple[str, ...]) -> Rules:
    """The group as the job describes it; all hosts where that is what failed."""
    with contextlib.suppress(LaunchError):
        known = rules_of(read_request(environ))
        if known:
            return known
    return Rules(hosts, hosts)


def _tell(group: Group, failure: Failure) -> None:
    was_stopped = bool(signals.received())
    pause = time.sleep if was_stopped else signals.sleep
    group.start(None)
    try:
        group.report(failure._replace(host=group.place.host), STOPPED if was_stopped else FAILED)
        deadline = time.monotonic() + (STOP_BOUND if was_stopped else BOUND)
        while not group.is_told and not group.reach.hopeless and time.monotonic() < deadline:
            pause(LOOK)
    finally:
        group.close()


def require_token(environ: Mapping[str, str]) -> None:
    """For what must not rest on a key that can be guessed. Raises LaunchError."""
    if is_guessable_key(environ):
        raise LaunchError(
            CONFIG,
            "MPI over several hosts lets one start programs on the others, and nothing secret tells this job's hosts"
            " from others",
            where=JOB_TOKEN,
            expected="a token, or the platform's own job name (TRAINING_JOB_NAME)",
            found="neither",
            remedy=KEY_REMEDY,
        )
