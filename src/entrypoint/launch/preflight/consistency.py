"""Whether the job's hosts fit together: image, lists of hosts, strategy, devices; and each host's own problems."""

from __future__ import annotations

import hashlib
import sys

from launch.discovery import own_name
from launch.preflight import host_checks
from launch.preflight.host_checks import HostFinding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from launch.plan.request import Request


PROCESSES_PER_HOST = "sagemaker_mpi_num_of_processes_per_host"
# The image's, in its environment
CONTENT_KEY = "DLC_CONTENT_KEY"
# Of a hash: enough to tell two apart
KEY_DIGITS = 12
# Characters of a list in a message
MOST_SHOWN = 200


def host_facts(request: Request) -> dict[str, Any]:
    """Return what the other hosts are to know of this one: JSON, small."""
    cluster = request.cluster
    strategy = request.strategy.row.name if request.strategy else ""
    counts_devices = request.row.counts_devices and cluster.current_host in request.hosts
    facts = {
        "image": request.environ.get(CONTENT_KEY, "")[:KEY_DIGITS],
        # Hosts that train together have one image; a group beside them may have its own.
        "part": "" if cluster.current_host in request.hosts else cluster.current_group,
        "hosts": _shorten_list(cluster.hosts),
        "groups": _shorten_list(
            [f"{group.name} ({group.instance_type}): {' '.join(group.hosts)}" for group in cluster.groups]
        ),
        "strategy": strategy,
        "distributed over": _shorten_list(request.hosts),
        "processes": (request.job.number(PROCESSES_PER_HOST) or request.devices.accelerators) if counts_devices else 0,
        "efa": request.devices.efa if counts_devices else None,
    }
    found = host_checks.check_host(request.devices, cluster, request.environ, is_distributed=bool(strategy))
    return {
        **facts,
        "traps": [*(str(finding) for finding in found if not finding.is_error), *own_name.describe_trouble()],
        "errors": [[finding.what, finding.remedy] for finding in found if finding.is_error],
    }


def compare_hosts(known: Mapping[str, Mapping[str, Any]]) -> list[HostFinding]:
    """Return what does not fit together, from the facts of each host (host -> facts): the same list on each."""
    distributed = {host: facts for host, facts in known.items() if facts["processes"]}
    parts: dict[str, dict[str, Mapping[str, Any]]] = {}
    for host, facts in known.items():
        parts.setdefault(facts.get("part", ""), {})[host] = facts
    remedy = "use one image, by digest, for every host that trains, and for every host of another group"
    checks = (
        *((part, "image", "the hosts run different images", remedy) for part in parts.values()),
        (known, "hosts", "the hosts were given different lists of hosts", "give each the same resourceconfig.json"),
        (known, "groups", "the hosts were given different instance groups", "give each the same resourceconfig.json"),
        (known, "strategy", "the hosts chose different strategies", "give each the same hyperparameters.json"),
        (
            known,
            "distributed over",
            "the hosts see different distributed groups",
            "give each the same sagemaker_distribution_instance_groups",
        ),
        (
            distributed,
            "processes",
            "the hosts would run different numbers of processes",
            "use one instance type per distributed group, or set the processes per host (DLC_NUM_GPUS for a test)",
        ),
        (
            distributed,
            "efa",
            "some hosts have EFA and some have not",
            "use one instance type, or set DLC_EFA=0 on all to do without",
        ),
    )
    found = [_difference(hosts, key, what, remedy) for hosts, key, what, remedy in checks]
    own = [
        HostFinding(f"{host}: {what}", remedy, is_error=True)
        for host, facts in known.items()
        for what, remedy in facts.get("errors", ())
    ]
    return [*(finding for finding in found if finding), *own]


def check_hosts(request: Request, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Say what was found; raise LaunchError (CONFIG) for the first thing with which the job cannot work.

    With DLC_PREFLIGHT=warn nothing is an error.
    """
    findings = [
        *compare_hosts(known),
        *(HostFinding(text, "") for text in known[request.cluster.current_host]["traps"]),
    ]
    host_checks.refuse_errors(findings, request.environ)
    _say("preflight", (str(finding).rstrip("; ") for finding in findings))


def as_report(
    known: Mapping[str, Mapping[str, Any]], seconds: float, unreached: Sequence[HostFinding] = ()
) -> tuple[str, bool]:
    """Return the text of `--preflight`, which took `seconds`, and whether the job could start."""
    differences = [*compare_hosts(known), *(finding for finding in unreached if finding.is_error)]
    lines = [f"preflight: {len(known)} host(s) answered in {seconds:.2f} s"]
    lines += [f"error: {finding}".rstrip("; ") for finding in differences]
    lines += [f"warning: {finding}" for finding in unreached if not finding.is_error]
    for text in sorted({text for facts in known.values() for text in facts["traps"]}):
        hosts = [host for host, facts in known.items() if text in facts["traps"]]
        lines.append(f"warning: {_list_some(hosts, len(known))}: {text}")
    if len(lines) == 1:
        lines.append("all is well")
    return "\n".join(lines), not any(finding.is_error for finding in differences)


def _difference(known: Mapping[str, Mapping[str, Any]], key: str, what: str, remedy: str) -> HostFinding | None:
    """Return a finding that tells which hosts have which value, unless all have the same."""
    holders: dict[str, list[str]] = {}
    for host in sorted(known):
        holders.setdefault(str(known[host][key]), []).append(host)
    if len(holders) < 2:
        return None
    shown = ", ".join(f"{value or 'none'} on {_list_some(hosts, len(known))}" for value, hosts in holders.items())
    return HostFinding(f"{what}: {shown}", remedy, is_error=True)


def _list_some(hosts: list[str], total: int) -> str:
    if len(hosts) == total and total > 1:
        return "every host"
    return ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")


def _shorten_list(words: Sequence[str]) -> str:
    """Return the words; of many, their number and a hash, because every host hears every other's facts."""
    text = ", ".join(words)
    if len(text) <= MOST_SHOWN:
        return text
    return f"{len(words)} ({hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:KEY_DIGITS]})"


def _say(source: str, lines: Iterable[str]) -> None:
    for line in lines:
        print(f"dlc: {source}: {line}", file=sys.stderr, flush=True)
