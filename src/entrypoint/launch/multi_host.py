"""This host's run as one of several: joins the hosts, checks, runs, and tells them why it failed early."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping

from dlc_channel import keys
from launch import signals
from launch.base.errors import CONFIG, FAILED, STOPPED, Failure, LaunchError, Outcome
from launch.base.files import make_private_folder
from launch.base.paths import PROGRAM_FILES, Paths
from launch.base.settings import (
    GROUP_PORT,
    JOB_TOKEN,
    PEER_SECONDS,
    port_of,
    read_choice,
    read_count,
    read_seconds,
)
from launch.coordination import rendezvous
from launch.coordination.member import Member
from launch.coordination.membership import GroupRules, MemberConfig, list_hosts
from launch.coordination.sockets import require_free
from launch.discovery import discover, host_addresses
from launch.plan.network import Network
from launch.plan.request import Request, read_request
from launch.preflight import consistency, reachability
from launch.preflight.host_checks import HostFinding
from launch.supervision.settings import Settings

# Of silence, after which a host counts as vanished (DLC_HEARTBEAT_TIMEOUT)
HEARTBEAT_SECONDS = 60.0

KEY_REMEDY = "set DLC_JOB_TOKEN to the same random text on every host, such as the output of `openssl rand -hex 16`"
# If one of them is set, ranks meet elsewhere than at the launcher's own port
RENDEZVOUS_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ENDPOINT")


def run_in_group(request: Request, settings: Settings, run: Callable[[Request, Settings, Member], Outcome]) -> Outcome:
    """Wait for the job's hosts, join them, and `run` with the group in its settings and their addresses in its request.

    What goes wrong before a process starts is told to the others too. Raises what `run` raises, and LaunchError if a
    host is not there in time or the hosts do not fit together.
    """
    rules = group_rules(request)
    # The only host of a group that is a job of its own
    if rules is None:
        raise ValueError("no group")
    if request.starts_remotely:
        require_token(request.environ)
    elif keys.is_guessable(request.environ):
        _say(f"the hosts know each other by their names alone, which is no secret; {KEY_REMEDY}")
    # Before the meeting: after it the other hosts start
    _check_rendezvous_port(request)
    group = _join_hosts(request, rules)
    try:
        consistency.check_hosts(request, group.facts)
        reachability.check_reachability(request, group)
        request = request._replace(network=_network_of_group(request, group))
        outcome = run(request, settings._replace(group=group), group)
    except (LaunchError, signals.StopRequested) as error:
        rendezvous.leave_early(group, error)
        raise
    except BaseException:
        group.close()
        raise
    group.close()
    return outcome


def preflight_only(request: Request) -> int:
    """Do `--preflight`: every host of the job meets the others and prints what does not fit; 0, or 78 for an error."""
    started = time.monotonic()
    known = {request.cluster.current_host: consistency.host_facts(request)}
    unreached: list[HostFinding] = []
    hosts = request.group_hosts or request.cluster.hosts
    if len(hosts) > 1:
        group = _join_hosts(request, GroupRules(hosts, hosts))
        known = group.facts
        try:
            unreached = reachability.exchange_findings(group, reachability.try_hosts(request, group))
        except signals.StopRequested as stop:
            rendezvous.leave_early(group, stop)
            raise
        group.close()
    text, is_well = consistency.as_report(known, time.monotonic() - started, unreached)
    print(text)
    return 0 if is_well else CONFIG


def group_rules(request: Request) -> GroupRules | None:
    """Return the group that this host is part of; None if it is alone. Raises LaunchError for a wrong setting."""
    if not request.members:
        return None
    elastic = request.row.read_elastic(request.environ)
    least = min(elastic.least, len(request.group_hosts)) if elastic else 0
    restarts = 0 if elastic else read_count(request.environ, "DLC_MAX_RESTARTS", 0)
    rules = GroupRules(request.group_hosts, request.members, restarts=restarts, least=least)
    may_fail = read_choice(request.environ, "DLC_DATA_HOSTS_MAY_FAIL")
    if may_fail is False:
        return rules
    return rules._replace(data_groups=request.data_groups, any_data_program=bool(may_fail))


def _join_hosts(request: Request, rules: GroupRules) -> Member:
    """Join the job's other hosts, and tell them of this one."""
    environ, cluster = request.environ, request.cluster
    own = (cluster.network_interface, probe_port(request, rules), _program_files(request, rules), _ended_file(request))
    port, heartbeat = port_of(environ, GROUP_PORT), read_seconds(environ, "DLC_HEARTBEAT_TIMEOUT", HEARTBEAT_SECONDS)
    config = MemberConfig(cluster.current_host, rules, keys.job_key(environ, rules.hosts), port, heartbeat, *own)
    timeout = read_seconds(environ, "DLC_PEER_TIMEOUT", PEER_SECONDS)
    return rendezvous.join(config, consistency.host_facts(request), timeout)


def probe_port(request: Request, rules: GroupRules) -> int | None:
    """Return the port of this host's probe listener, 0 for any; None if there is nobody to try it.

    If the strategy's processes listen at one port that is known, no other port may be let through.
    A host that comes late to an elastic job finds the probe listeners closed.
    """
    hosts = request.connected_hosts
    if rules.least or len(hosts) < 2 or request.cluster.current_host not in hosts:
        return None
    port = request.row.probe_port
    return port_of(request.environ, port) if port else 0


def _program_files(request: Request, rules: GroupRules) -> dict[str, str]:
    """Return what this host's program can say -> the file that says it; empty if it need not or cannot.

    With a strategy, a program outside of its groups can say that others may take over. Without one each host counts,
    but a program of a group that is not said to train can say that it only serves.
    """
    cluster = request.cluster
    may_serve = not request.strategy and len(cluster.groups) > 1 and cluster.current_group not in request.groups
    may_say = {
        "replaceable": rules.is_data_host(cluster.current_host) and not rules.any_data_program,
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
            # Of an earlier run, in a container that is started again
            os.unlink(path)
    return files


def _ended_file(request: Request) -> str:
    """Return where programs find which hosts have ended: a group may wait for another one that serves it."""
    if len(request.cluster.groups) < 2:
        return ""
    try:
        make_private_folder(request.run_dir)
    except LaunchError:
        return ""
    return f"{request.run_dir}/ended-hosts-{os.getpid()}"


def _check_rendezvous_port(request: Request) -> None:
    """Raise LaunchError if ranks are to meet on this host at a port that is taken: they would try for minutes.

    If the user has said where they meet, the port is the user's own.
    """
    switch = request.row.rendezvous_port
    is_stated = any(map(request.environ.get, RENDEZVOUS_VARIABLES))
    if not switch or is_stated or request.cluster.current_host != request.hosts[0]:
        return
    require_free(port_of(request.environ, switch), switch, f"the ranks of {request.row.name}")


def _network_of_group(request: Request, group: Member) -> Network:
    """Return where the others are reached: by name, or by address if it does not resolve."""
    own = request.cluster.current_host
    nameless = host_addresses.find_unresolved(group.facts, rendezvous.RESOLVE_SECONDS)
    others = [host for host in nameless if host != own]
    if others:
        _say(f"{list_hosts(others)} does not resolve; the address it came from is used where that is possible")
    known = {host: facts["address"] for host, facts in group.facts.items() if facts.get("address")}
    listen = host_addresses.own_addresses(own, request.cluster.network_interface)
    return Network(
        addresses={host: known[host] for host in nameless if host in known},
        sources=known,
        listen=listen,
        secret=keys.purpose_key(group.config.key, "ranks").hex(),
        data_token=keys.data_token(group.config.key),
        program_files=group.config.program_files,
        ended_file=group.config.ended_file,
    )


def _say(text: str) -> None:
    print(f"dlc: {text}", file=sys.stderr, flush=True)


# For the others to come and hear it: a busy engine may start them much later
BOUND_SECONDS = 60.0
# If the place ends this host soon
STOP_SECONDS = 3.0
LAST_HEARTBEAT_SECONDS = 5.0
LOOK_SECONDS = 0.02


def announce_failure(environ: Mapping[str, str], paths: Paths, failure: Failure) -> None:
    """Tell the group, as far as it can be known without what failed; nothing for a host alone. Raises nothing."""
    with contextlib.suppress(LaunchError, OSError, signals.StopRequested):
        cluster = discover.discover(environ, paths)
        rules = _rules_or_all(environ, cluster.hosts)
        key = keys.job_key(environ, rules.hosts)
        port = port_of(environ, GROUP_PORT)
        config = MemberConfig(cluster.current_host, rules, key, port, LAST_HEARTBEAT_SECONDS, cluster.network_interface)
        if cluster.current_host in rules.hosts:
            _announce(Member(config), failure, _longest_wait(environ))


def _longest_wait(environ: Mapping[str, str]) -> float:
    try:
        return min(BOUND_SECONDS, read_seconds(environ, "DLC_PEER_TIMEOUT", PEER_SECONDS))
    except LaunchError:  # this may be what failed
        return BOUND_SECONDS


def _rules_or_all(environ: Mapping[str, str], hosts: tuple[str, ...]) -> GroupRules:
    """Return the group as the job describes it; all hosts if that is what failed."""
    with contextlib.suppress(LaunchError):
        known = group_rules(read_request(environ))
        if known:
            return known
    return GroupRules(hosts, hosts)


def _announce(group: Member, failure: Failure, longest: float) -> None:
    was_stopped = bool(signals.received())
    pause = time.sleep if was_stopped else signals.sleep
    group.start(None)
    try:
        group.report(failure._replace(host=group.config.host), STOPPED if was_stopped else FAILED)
        deadline = time.monotonic() + (STOP_SECONDS if was_stopped else longest)
        notes = rendezvous.ProgressNotes()
        while not group.is_delivered and not group.leader.why_unreachable and time.monotonic() < deadline:
            if notes.is_due():
                _say("the other hosts are to hear why this one failed; waiting for them")
            pause(LOOK_SECONDS)
    finally:
        group.close()


def require_token(environ: Mapping[str, str]) -> None:
    """Raise LaunchError if the job's key could be guessed."""
    if keys.is_guessable(environ):
        raise LaunchError(
            CONFIG,
            "MPI over several hosts lets one start programs on the others, and nothing secret tells this job's hosts"
            " from others",
            where=JOB_TOKEN,
            expected="a token, or the place's own job name (TRAINING_JOB_NAME)",
            found="neither",
            remedy=KEY_REMEDY,
        )
