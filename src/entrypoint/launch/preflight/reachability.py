"""Whether the job's hosts reach each other, and not the leader alone: each probes some of the others.

All others in a small job. In a large one those at distance 1, 2, 4, ... in the list of hosts: so each host is tried by
a few others, and a host, a rack or a zone that is cut off is noticed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence

from dlc_channel.channel import NotOfThisJobError
from launch import signals
from launch.base.errors import CONFIG, Failure, one_line
from launch.coordination.member import Member
from launch.coordination.sockets import ask_listener
from launch.discovery import host_addresses
from launch.plan.request import Request
from launch.preflight import host_checks
from launch.preflight.host_checks import HostFinding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Hosts; up to so many try all others
ALL_PAIRS = 16
# A network being set up, or lost packets, are not the job's end
BOUND_SECONDS = 10.0
# For one connection
ATTEMPT_SECONDS = 3.0
# Between two attempts
PAUSE_SECONDS = 0.2
# For a resolver
SLACK_SECONDS = 5.0
LOOK_SECONDS = 0.005
# Hosts that a message names, each with its address
MOST_NAMED = 4
REMEDY = "check the security group, network policy or firewall: the job's hosts need every port between them"


def choose_targets(hosts: Sequence[str], own: str) -> tuple[str, ...]:
    """Return the hosts that this one tries."""
    at, count = hosts.index(own), len(hosts)
    if count <= ALL_PAIRS:
        distances: Sequence[int] = range(1, count)
    else:
        distances = [1 << power for power in range((count - 1).bit_length())]
    return tuple(hosts[(at + distance) % count] for distance in distances)


def check_reachability(request: Request, group: Member) -> None:
    """Probe them; raise LaunchError (CONFIG) if the strategy needs a host that cannot be reached.

    With DLC_PREFLIGHT=warn nothing is an error.
    """
    findings = try_hosts(request, group)
    host_checks.refuse_errors(findings, request.environ)
    for finding in findings:
        print(f"dlc: preflight: {finding}", file=sys.stderr, flush=True)


def try_hosts(request: Request, group: Member) -> list[HostFinding]:
    """Return the hosts that this one cannot reach, as one finding: none if the job ends."""
    own, hosts = request.cluster.current_host, request.connected_hosts
    # A launcher that comes back to a job that runs finds the others' probe listeners closed
    if group.probe_listener is None or group.has_to_restart:
        return []
    listen = [host for host in choose_targets(hosts, own) if group.facts.get(host, {}).get("door")]
    tries = [Probe(own, host, group.facts[host], group.config.key) for host in listen]
    for each in tries:
        each.start()
    deadline = time.monotonic() + BOUND_SECONDS + SLACK_SECONDS
    while any(each.is_alive() for each in tries) and time.monotonic() < deadline:
        if group.end or group.stopping_host:
            return []
        signals.sleep(LOOK_SECONDS)
    failed = [each for each in tries if not each.has_reached]
    if not failed:
        return []
    more = f" and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    shown = ", ".join(map(str, failed[:MOST_NAMED]))
    return [HostFinding(f"{own} cannot reach {shown}{more}", REMEDY, is_error=request.row.connects)]


def exchange_findings(group: Member, findings: list[HostFinding]) -> list[HostFinding]:
    """Tell the others, for `--preflight`; return this host's findings and another's, when all have tried."""
    own = group.config.host
    errors = [Failure(str(finding), host=own, exit_code=CONFIG) for finding in findings if finding.is_error]
    group.report(errors[0] if errors else None)
    deadline = time.monotonic() + BOUND_SECONDS + 2 * SLACK_SECONDS
    while group.end is None and time.monotonic() < deadline:
        signals.sleep(LOOK_SECONDS)
    if group.end is None or group.end.ok or group.end.host == own:
        return findings
    return [*findings, HostFinding(group.end.cause, "", is_error=True)]


class Probe(threading.Thread):
    """One host tries another, until it answers or BOUND_SECONDS is over."""

    def __init__(self, own: str, host: str, facts: dict[str, Any], key: bytes) -> None:
        super().__init__(daemon=True, name=f"try {host}")
        self.has_reached = False
        self._own, self._host, self._key = own, host, key
        self._came_from, self._port = str(facts.get("address") or ""), int(facts["door"])
        self._address, self._trouble = "", "its name is still being looked up"

    def __str__(self) -> str:
        """Name the host, where it was looked for, and why it was not found."""
        where = f"{self._address}, port {self._port}" if self._address else f"port {self._port}"
        return one_line(f"{self._host} ({where}): {self._trouble}")

    def run(self) -> None:
        """Run the thread."""
        deadline = time.monotonic() + BOUND_SECONDS
        while True:
            self.has_reached = any(self._answers(address, deadline) for address in self._addresses())
            if self.has_reached or time.monotonic() + PAUSE_SECONDS >= deadline:
                return
            time.sleep(PAUSE_SECONDS)

    def _addresses(self) -> Iterator[str]:
        """Yield where it came from, so that no resolver that hangs is waited for; then what its name means."""
        if self._came_from:
            yield self._came_from
        found = host_addresses.resolve(self._host)
        if not found and not self._came_from:
            self._trouble = "it does not resolve"
        for address in found:
            if address != self._came_from:
                yield address

    def _answers(self, address: str, deadline: float) -> bool:
        timeout = min(ATTEMPT_SECONDS, deadline - time.monotonic())
        if timeout <= 0:
            return False
        self._address = address
        try:
            answered = ask_listener(address, self._port, self._key, self._own, timeout)["host"]
        except NotOfThisJobError as error:
            self._trouble = f"what answers is not this job's launcher: {error}"
        except OSError as error:
            self._trouble = error.strerror or str(error)
        else:
            self._trouble = f"{answered} answers in its place"
            return answered == self._host
        return False
