"""A host's run as a part of the group of hosts: they find each other first, and each hears how the others end."""

from __future__ import annotations

from collections.abc import Callable

from launch import group_end, peers, signals, supervise
from launch.errors import LaunchError
from launch.interpretation import Request
from launch.outcome import STOPPED, Failure, Outcome
from launch.switches import port, seconds


def in_group(request: Request, settings: supervise.Settings, run: Callable[[supervise.Settings], Outcome]) -> Outcome:
    """Wait for the job's hosts, join them where the job is distributed, and `run` with the group in its settings.

    What goes wrong before a process starts is told to the others too. Raises what `run` raises, and LaunchError naming
    the hosts that are not there in time.
    """
    environ = request.environ
    timeout = seconds(environ, "DLC_PEER_TIMEOUT", group_end.JOIN_TIMEOUT)
    # SageMaker Studio's local mode has no name resolution at all.
    if environ.get("SM_STUDIO_LOCAL_MODE", "").lower() != "true":
        peers.wait(request.cluster.hosts, timeout)
    if not request.members:
        return run(settings)
    group = group_end.join(
        group_end.Membership(request.cluster.current_host, request.group_hosts, request.members),
        {},
        environ,
        port=port(environ, "DLC_GROUP_PORT", group_end.PORT),
        timeout=timeout,
        heartbeat=seconds(environ, "DLC_HEARTBEAT_TIMEOUT", group_end.HEARTBEAT),
    )
    try:
        return run(settings._replace(group=group))
    except LaunchError as error:
        group.report(Failure(str(error), host=settings.host, exit_code=error.exit_code))
        raise
    except signals.StopRequested as stop:
        group.report(Failure(str(stop), host=settings.host, exit_code=128 + stop.signum), STOPPED)
        raise
    finally:
        group.close()
