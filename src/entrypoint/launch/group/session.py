"""A host's run as a part of the group of hosts: they find each other first, and each hears how the others end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from launch import signals
from launch.base.errors import CONFIG, LaunchError
from launch.base.outcome import STOPPED, Failure, Outcome
from launch.base.switches import port, seconds
from launch.discovery import names as peers
from launch.group import member as group_end
from launch.group import preflight
from launch.plan.interpretation import Request
from launch.plan.strategies import mpi_keys
from launch.plan.strategies.mpi import SSH_PORT
from launch.supervision import run as supervise

SSH_KEY = "ssh key"  # the fact that holds a host's public key


def in_group(request: Request, settings: supervise.Settings, run: Callable[[supervise.Settings], Outcome]) -> Outcome:
    """Wait for the job's hosts, join them where the job is distributed, and `run` with the group in its settings.

    What goes wrong before a process starts is told to the others too. Raises what `run` raises, and LaunchError where a
    host is not there in time or the hosts do not fit together.
    """
    _wait_for_names(request)
    if not request.members:
        return run(settings)
    host = request.cluster.current_host
    facts = preflight.facts(request)
    if request.needs_ssh:
        facts[SSH_KEY] = mpi_keys.make(request.run_dir, leads=host == request.hosts[0])
    group = _join(request, request.group_hosts, request.members, facts)
    try:
        preflight.check(request, group.facts)
        if request.needs_ssh:
            keys = {name: known.get(SSH_KEY) for name, known in group.facts.items()}
            mpi_keys.install(request.run_dir, request.hosts, host, keys, SSH_PORT)
        return run(settings._replace(group=group))
    except LaunchError as error:
        group.report(Failure(str(error), host=settings.host, exit_code=error.exit_code))
        raise
    except signals.StopRequested as stop:
        group.report(Failure(str(stop), host=settings.host, exit_code=128 + stop.signum), STOPPED)
        raise
    finally:
        group.close()
        if request.needs_ssh:
            mpi_keys.remove(request.run_dir)


def preflight_only(request: Request) -> int:
    """`--preflight`: every host of the job meets the others and prints what does not fit; 0, or 78 for an error."""
    started = time.monotonic()
    known = {request.cluster.current_host: preflight.facts(request)}
    hosts = request.group_hosts or request.cluster.hosts
    if len(hosts) > 1:
        _wait_for_names(request)
        group = _join(request, hosts, hosts, preflight.facts(request))
        known = group.facts
        group.report(None)
        group.close()
    text, is_well = preflight.report(known, time.monotonic() - started)
    print(text)
    return 0 if is_well else CONFIG


def _wait_for_names(request: Request) -> None:
    # SageMaker Studio's local mode has no name resolution at all.
    if request.environ.get("SM_STUDIO_LOCAL_MODE", "").lower() != "true":
        peers.wait(request.cluster.hosts, _timeout(request))


def _join(request: Request, hosts: tuple[str, ...], members: tuple[str, ...], facts: dict[str, Any]) -> group_end.Group:
    environ = request.environ
    return group_end.join(
        group_end.Membership(request.cluster.current_host, hosts, members),
        facts,
        environ,
        port=port(environ, "DLC_GROUP_PORT", group_end.PORT),
        timeout=_timeout(request),
        heartbeat=seconds(environ, "DLC_HEARTBEAT_TIMEOUT", group_end.HEARTBEAT),
    )


def _timeout(request: Request) -> float:
    return seconds(request.environ, "DLC_PEER_TIMEOUT", group_end.JOIN_TIMEOUT)
