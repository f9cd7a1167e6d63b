"""The cluster as the user states it: DLC_HOSTS or DLC_GROUPS, and DLC_RANK, this host's place in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, make_cluster, match_host
from launch.discovery.slurm import expand_node_list


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """Return the stated cluster, None without DLC_HOSTS and DLC_GROUPS.

    Raises LaunchError: empty list, no such rank, a host that is in no group or in two.
    """
    if "DLC_HOSTS" not in environ and "DLC_GROUPS" not in environ:
        return None
    stated = environ.get("DLC_GROUPS", "")
    named = _name_pods(stated, environ)
    groups = _read_groups(named)
    grouped = [host for members in groups.values() for host in members]
    where = "DLC_HOSTS" if "DLC_HOSTS" in environ else "DLC_GROUPS"
    hosts = _read_hosts(environ["DLC_HOSTS"], where) if where == "DLC_HOSTS" else grouped
    if groups and sorted(grouped) != sorted(set(hosts)):
        raise LaunchError(
            CONFIG,
            "the hosts of the groups",
            where="DLC_GROUPS",
            expected=f"each of {shown(hosts)} in one group",
            found=shown(grouped),
        )
    if not hosts:
        raise LaunchError(CONFIG, "no host", where=where, expected="groups like data=h1,h2;dnn=h3", found="none")
    cluster = make_cluster(where, hosts, hosts[_own_rank(environ, hosts)], where, environ, groups)
    # As in `dlc run`
    return cluster._replace(each_group_is_a_job=named != stated)


def _own_rank(environ: Mapping[str, str], hosts: list[str]) -> int:
    """Return DLC_RANK; without it the host that is called as this machine is, or the only one."""
    rank = environ.get("DLC_RANK")
    if rank is None:
        own = match_host(hosts, environ.get("SLURMD_NODENAME", "")) or match_host(hosts, environ.get("HOSTNAME", ""))
        rank = str(hosts.index(own)) if own else "0" if len(hosts) == 1 else ""
    if not re.fullmatch(r"[0-9]{1,6}", rank) or int(rank) >= len(hosts):
        raise LaunchError(
            CONFIG,
            "which of the job's hosts this is",
            where="DLC_RANK",
            expected=f"a number from 0 to {len(hosts) - 1}",
            found=shown(rank) if rank else "no DLC_RANK, and no host called as this one is (HOSTNAME)",
        )
    return int(rank)


def _name_pods(stated: str, environ: Mapping[str, str]) -> str:
    """Return a JobSet's `data=2;dnn=1`, the pods of its replicated jobs, as their names."""
    job_set = environ.get("JOBSET_NAME")
    if not job_set:
        return stated
    domain = environ.get("DLC_SERVICE") or job_set

    def name(found: re.Match[str]) -> str:
        # Kubernetes takes neither a capital nor an underscore.
        job = re.sub("[_.]", "-", found[1].lower())
        return f"{found[1]}={job_set}-{job}-0-[0-{int(found[2]) - 1}].{domain}"

    return re.sub(r"([\w.-]+) *= *([1-9]\d{0,4}) *(?=;|$)", name, stated)


def _read_groups(stated: str) -> dict[str, list[str]]:
    """Read `data=h1,h2;dnn=h[3-4]` as name -> hosts."""
    groups: dict[str, list[str]] = {}
    for item in filter(None, (part.strip() for part in stated.split(";"))):
        name, sign, members = item.partition("=")
        if not sign or not name.strip() or name.strip() in groups:
            raise LaunchError(
                CONFIG, "malformed", where="DLC_GROUPS", expected="groups like data=h1,h2;dnn=h3", found=shown(stated)
            )
        groups[name.strip()] = _read_hosts(members, "DLC_GROUPS")
    return groups


def _read_hosts(stated: str, where: str) -> list[str]:
    """Read `a,b[1-3]` as names; if there are IPv6 literals, brackets are theirs."""
    if ":" in stated:
        return [host.strip().strip("[]") for host in stated.split(",")]
    return [host.strip() for host in expand_node_list(stated, where)]
