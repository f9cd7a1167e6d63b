"""A launcher that fails before it joined its group tells the other hosts why, or they would wait for it in vain."""

from __future__ import annotations

import contextlib
import time

from launch import signals
from launch.base import ports
from launch.base.errors import LaunchError
from launch.base.outcome import FAILED, STOPPED, Failure
from launch.discovery import cluster as cluster_module
from launch.group import token
from launch.group.ledger import Rules
from launch.group.member import Group
from launch.group.place import Place
from launch.group.session import rules_of
from launch.plan import interpretation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from launch.base.paths import Paths

BOUND = 20.0  # seconds for the others to come and hear it; they may start a little later
STOP_BOUND = 3.0  # seconds where the platform ends this host soon
HEARTBEAT = 5.0  # seconds
LOOK = 0.02  # seconds


def tell(environ: Mapping[str, str], paths: Paths, failure: Failure) -> None:
    """Tell the group, as far as it can be known without what failed; nothing for a host alone. Raises nothing."""
    with contextlib.suppress(LaunchError, OSError, signals.StopRequested):
        cluster = cluster_module.discover(environ, paths)
        rules = _rules(environ, cluster.hosts)
        key = token.derive(environ, cluster.hosts)
        port = ports.of(environ, ports.GROUP)
        place = Place(cluster.current_host, rules, key, port, HEARTBEAT, cluster.network_interface)
        if cluster.current_host in rules.hosts:
            _tell(Group(place), failure)


def _rules(environ: Mapping[str, str], hosts: tuple[str, ...]) -> Rules:
    """The group as the job describes it; all hosts where that is what failed."""
    with contextlib.suppress(LaunchError):
        known = rules_of(interpretation.read(environ))
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
