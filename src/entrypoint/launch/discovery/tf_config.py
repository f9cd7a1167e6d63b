"""The cluster as TF_CONFIG tells it, which Kubeflow's TFJob sets in every pod, or the user by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, make_cluster

SOURCE = "TF_CONFIG"
EVALUATOR = "evaluator"
# Types of tasks in rank order; others follow
FIRST = ("chief", "master", "worker")


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """Return the hosts of TF_CONFIG's cluster, a group for each type of task; None without, and for an evaluator.

    That is a task in no cluster, which works alone. Raises LaunchError for a malformed TF_CONFIG, and for any other
    task that is in no cluster.
    """
    text = environ.get("TF_CONFIG")
    if not text:
        return None
    config = _parse_config(text)
    tasks = {kind: [_host_of(address) for address in addresses] for kind, addresses in _read_tasks(config).items()}
    kind, index = _own_task(config)
    hosts = list(dict.fromkeys(host for members in tasks.values() for host in members))
    if len(hosts) < 2:
        return None
    if kind not in tasks:
        if kind == EVALUATOR:
            return None
        raise _malformed_config(f"a task of type {' or '.join([*tasks, EVALUATOR])}: this host would train alone",
                         config.get("task"))  # fmt: skip
    if index >= len(tasks[kind]):
        raise _malformed_config(f"a task below {len(tasks[kind])}", config.get("task"))
    # Two tasks on one host: the types are no groups of hosts
    shared = len(hosts) < sum(map(len, tasks.values()))
    found = make_cluster(SOURCE, hosts, tasks[kind][index], SOURCE, environ, None if shared else tasks)
    return found if shared else found._replace(servers=tuple(tasks.get("ps", ())))


def _parse_config(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed_config("JSON", text) from error
    if not isinstance(config, dict):
        raise _malformed_config("a JSON object", config)
    return config


def _read_tasks(config: dict[str, Any]) -> dict[str, list[str]]:
    """Map each type of task to its addresses, in rank order."""
    cluster = config.get("cluster") or {}
    if not isinstance(cluster, dict):
        raise _malformed_config("an object with types of tasks", cluster)
    for addresses in cluster.values():
        if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
            raise _malformed_config("lists of addresses", addresses)
    kinds = [*(kind for kind in FIRST if kind in cluster), *sorted(kind for kind in cluster if kind not in FIRST)]
    return {kind: cluster[kind] for kind in kinds if cluster[kind]}


def _own_task(config: dict[str, Any]) -> tuple[str, int]:
    task = config.get("task") or {}
    if not isinstance(task, dict):
        raise _malformed_config("a task with type and index", task)
    kind, index = task.get("type", ""), task.get("index", 0)
    if not isinstance(kind, str) or not re.fullmatch(r"[0-9]{1,9}", str(index)):
        raise _malformed_config("a task with type and index", task)
    return kind, int(index)


def _host_of(address: str) -> str:
    """Return the host of `host:port` or `[::1]:port`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") if port.isdigit() else address.strip("[]")


def _malformed_config(expected: str, found: object) -> LaunchError:
    return LaunchError(CONFIG, "malformed", where="TF_CONFIG", expected=expected, found=shown(found))
