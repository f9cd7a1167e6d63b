"""The cluster as Slurm's step tells it: one launcher per node, started with `srun --ntasks-per-node=1`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, plain

MOST_HOSTS = 65536  # a node list that is longer is a mistake or an attack
REMEDY = "start the container with `srun --ntasks-per-node=1`"


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """The step's nodes, None outside of a step (a batch script's own shell knows the nodes but runs on one of them).

    Raises LaunchError: a malformed node list, several tasks on a node, no such node.
    """
    node_list = environ.get("SLURM_STEP_NODELIST")
    if not node_list or "SLURM_NODEID" not in environ:
        return None
    hosts = list(expand(node_list))
    tasks = environ.get("SLURM_STEP_TASKS_PER_NODE", "1")
    if not re.fullmatch(r"1(\(x\d+\))?(,1(\(x\d+\))?)*", tasks):
        raise LaunchError(
            CONFIG,
            "several launchers on one node",
            where="SLURM_STEP_TASKS_PER_NODE",
            expected="one task per node",
            found=shown(tasks),
            remedy=REMEDY,
        )
    node = environ["SLURM_NODEID"]
    if not node.isascii() or not node.isdigit() or int(node) >= len(hosts):
        raise LaunchError(
            CONFIG,
            "which node this is",
            where="SLURM_NODEID",
            expected=f"a number from 0 to {len(hosts) - 1}",
            found=shown(node),
        )
    interface = environ.get("DLC_NETWORK_INTERFACE", "")
    return plain("Slurm", hosts, hosts[int(node)], "SLURM_STEP_NODELIST", interface)


def expand(node_list: str) -> Iterator[str]:
    """The names in a node list: `a,b[1-3,07]-x` is a, b1-x, b2-x, b3-x, b07-x. Leading zeros keep their width."""
    count = 0
    for item in _split(node_list):
        for name in _product(item, node_list):
            count += 1
            if count > MOST_HOSTS:
                raise _malformed(node_list)
            yield name


def _split(node_list: str) -> list[str]:
    """At the commas that are outside of brackets."""
    if not re.fullmatch(r"(\[[0-9,-]+\]|[^\[\],])+(,(\[[0-9,-]+\]|[^\[\],])+)*", node_list):
        raise _malformed(node_list)
    return re.findall(r"(?:\[[0-9,-]+\]|[^\[\],])+", node_list)


def _product(item: str, node_list: str) -> Iterator[str]:
    head, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    ranges, _, tail = rest.partition("]")
    for part in ranges.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if not match:
            raise _malformed(node_list)
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise _malformed(node_list)
        for number in range(int(first), int(last) + 1):
            yield from _product(f"{head}{number:0{len(first)}d}{tail}", node_list)


def _malformed(node_list: str) -> LaunchError:
    return LaunchError(
        CONFIG, "malformed", where="SLURM_STEP_NODELIST", expected="a node list like a[1-3],b", found=shown(node_list)
    )
