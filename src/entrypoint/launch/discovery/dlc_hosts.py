"""The cluster as the user states it: DLC_HOSTS, a comma-separated list, and DLC_RANK, this host's place in it."""

from __future__ import annotations

from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, plain


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """The stated cluster, None without DLC_HOSTS. Raises LaunchError: empty list, no such rank."""
    stated = environ.get("DLC_HOSTS")
    if stated is None:
        return None
    hosts = [host.strip() for host in stated.split(",")]
    rank = environ.get("DLC_RANK", "" if len(hosts) > 1 else "0")
    if not rank.isascii() or not rank.isdigit() or int(rank) >= len(hosts):
        raise LaunchError(
            CONFIG,
            "which of DLC_HOSTS this host is",
            where="DLC_RANK",
            expected=f"a number from 0 to {len(hosts) - 1}",
            found=shown(rank) if rank else "no DLC_RANK",
        )
    return plain("DLC_HOSTS", hosts, hosts[int(rank)], "DLC_HOSTS", environ.get("DLC_NETWORK_INTERFACE", ""))
