"""The cluster as Slurm's step tells it, and its short lists of host names: one launcher per node, or one per task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, Task, make_cluster

# Salloc's own shell, which some sites run on the first node: no step of the user's
INTERACTIVE_STEP = str(0xFFFFFFFA)
START = "start it with `srun --ntasks-per-node=1`"
ALONE = "for a job of this host alone set DLC_HOSTS to its name"


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """Return the step's nodes, None outside of Slurm and in an allocation of one node.

    Raises LaunchError: an allocation of several nodes without a step (the shell of a batch script or of salloc runs on
    one of them), a step whose container was not told which task it is, a malformed list, no such node.
    """
    node_list = environ.get("SLURM_STEP_NODELIST")
    if not node_list or environ.get("SLURM_STEP_ID") == INTERACTIVE_STEP:
        _refuse_without_step(environ, "that of an interactive shell" if node_list else "none")
        return None
    hosts = list(expand_node_list(node_list))
    groups = _het_groups(environ, hosts)
    # A heterogeneous job numbers its nodes by component, whatever their names sort like
    if groups:
        hosts = [host for members in groups.values() for host in members]
    index = _own_node(environ, hosts)
    cluster = make_cluster("Slurm", hosts, hosts[index], "SLURM_STEP_NODELIST", environ, groups)
    return cluster._replace(task=_own_task(environ, hosts, index))


def _refuse_without_step(environ: Mapping[str, str], found: str) -> None:
    if "SLURM_JOB_ID" not in environ:
        return
    nodes = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES")
    listed = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    if not nodes and listed:
        nodes = str(len(list(expand_node_list(listed, "SLURM_JOB_NODELIST"))))
    if nodes and nodes != "1":
        raise LaunchError(
            CONFIG,
            f"an allocation of {nodes} nodes, but no step on them: this host would train alone",
            where="SLURM_JOB_ID",
            expected="SLURM_STEP_NODELIST",
            found=found,
            remedy=f"{START}; {ALONE}",
        )


def _het_groups(environ: Mapping[str, str], hosts: list[str]) -> dict[str, list[str]]:
    """Return the step's nodes by component of a heterogeneous job, {} in any other job."""
    groups: dict[str, list[str]] = {}
    for number in range(len(hosts)):
        names = (f"SLURM_JOB_NODELIST_{word}_GROUP_{number}" for word in ("HET", "PACK"))
        name = next((name for name in names if environ.get(name)), "")
        if not name:
            break
        members = [host for host in expand_node_list(environ[name], name) if host in hosts]
        if members:
            groups[f"group-{number}"] = members
    grouped = [host for members in groups.values() for host in members]
    # A node that two components share has one launcher per component: no group is its own.
    return groups if sorted(grouped) == sorted(hosts) else {}


def _own_node(environ: Mapping[str, str], hosts: list[str]) -> int:
    """Find this host by name, because numbers do not follow the list in every job."""
    name = environ.get("SLURMD_NODENAME", "")
    if name in hosts or len(hosts) == 1:
        return hosts.index(name) if name in hosts else 0
    node = environ.get("SLURM_NODEID")
    if node is None:
        raise _unknown_task(f"a step of {len(hosts)} nodes", "SLURM_STEP_NODELIST", "SLURMD_NODENAME or SLURM_NODEID")
    if not re.fullmatch(r"[0-9]{1,6}", node) or int(node) >= len(hosts):
        raise LaunchError(
            CONFIG,
            "which node this is",
            where="SLURM_NODEID",
            expected=f"a number from 0 to {len(hosts) - 1}",
            found=shown(node),
        )
    return int(node)


def _own_task(environ: Mapping[str, str], hosts: list[str], index: int) -> Task | None:
    """Return this task if the step has several tasks on a node; None if each node has one task."""
    per_node = _tasks_per_node(environ.get("SLURM_STEP_TASKS_PER_NODE", "1"))
    if set(per_node) == {1}:
        return None
    local_size = per_node[index] if index < len(per_node) else per_node[-1]
    if not environ.get("SLURM_PROCID"):
        raise _unknown_task("a step of several tasks on a node", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID")
    world_size = _read_number(environ, "SLURM_STEP_NUM_TASKS", len(hosts), MOST_HOSTS * 1024, "SLURM_NTASKS")
    return Task(
        rank=_read_number(environ, "SLURM_PROCID", 0, world_size - 1),
        world_size=world_size,
        local_rank=_read_number(environ, "SLURM_LOCALID", 0, local_size - 1),
        local_size=local_size,
    )


def _unknown_task(several: str, where: str, expected: str) -> LaunchError:
    return LaunchError(
        CONFIG,
        f"{several}, but nothing says which of them this is: each would train alone",
        where=where,
        expected=expected,
        found="none",
        remedy=f"let the container have the task's variables (RunTimeEnvExclude in oci.conf); {ALONE}",
    )


def _tasks_per_node(text: str) -> list[int]:
    """Read `2(x3),1` as 2, 2, 2, 1."""
    if not re.fullmatch(r"[1-9]\d{0,4}(\(x\d{1,5}\))?(,[1-9]\d{0,4}(\(x\d{1,5}\))?)*", text):
        raise LaunchError(
            CONFIG, "malformed", where="SLURM_STEP_TASKS_PER_NODE", expected="numbers like 2(x3),1", found=shown(text)
        )
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, nodes in found for _ in range(min(int(nodes or 1), MOST_HOSTS))]


def _read_number(environ: Mapping[str, str], name: str, least: int, most: int, other: str = "") -> int:
    text = environ.get(name) or environ.get(other, "")
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise LaunchError(
            CONFIG, "malformed", where=name, expected=f"a number from {least} to {most}", found=shown(text)
        )
    return int(text)


# A node list that is longer is a mistake or an attack
MOST_HOSTS = 65536


def expand_node_list(node_list: str, where: str = "SLURM_STEP_NODELIST") -> Iterator[str]:
    """Return the names in a node list: `a,b[1-3,07]-x` is a, b1-x, b2-x, b3-x, b07-x (with leading zeros).

    Raises LaunchError, naming `where` it was read, for a malformed list.
    """
    count = 0
    for item in _split_list(node_list, where):
        for name in _expand_item(item, node_list, where):
            count += 1
            if count > MOST_HOSTS:
                raise _malformed_list(node_list, where)
            yield name


def _split_list(node_list: str, where: str) -> list[str]:
    """Split at the commas that are outside of brackets."""
    if not re.fullmatch(r"(\[[0-9,-]+\]|[^\[\],])+(,(\[[0-9,-]+\]|[^\[\],])+)*", node_list):
        raise _malformed_list(node_list, where)
    return re.findall(r"(?:\[[0-9,-]+\]|[^\[\],])+", node_list)


def _expand_item(item: str, node_list: str, where: str) -> Iterator[str]:
    head, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    ranges, _, tail = rest.partition("]")
    for part in ranges.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if not match:
            raise _malformed_list(node_list, where)
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise _malformed_list(node_list, where)
        for number in range(int(first), int(last) + 1):
            yield from _expand_item(f"{head}{number:0{len(first)}d}{tail}", node_list, where)


def _malformed_list(node_list: str, where: str) -> LaunchError:
    return LaunchError(CONFIG, "malformed", where=where, expected="a node list like a[1-3],b", found=shown(node_list))
