"""Where the job's dispatcher and workers of tf.data.service listen, from the launcher's variables."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import MissingPackageError, ServersLostError, SettingError
from dlc_runtime.dataservice.wire import addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dlc_runtime.cluster_facts import Cluster

DISPATCHER_PORT, WORKER_PORT = 7802, 7803
DISPATCHER_SWITCH, WORKER_SWITCH = "DLC_TF_DATA_PORT", "DLC_TF_DATA_WORKER_PORT"
# The launcher sets it if a group's program is tf.data.
GROUP = "DLC_TF_DATA_GROUP"
WORKERS = "DLC_TF_DATA_WORKERS"
# The name in SageMaker's examples.
USUAL_GROUP = "data_group"
# For the data hosts to start: their images may be pulled later.
PATIENCE_SECONDS = 300.0
PAUSE_SECONDS, CONNECT_SECONDS = 0.2, 5.0


class Service(NamedTuple):
    """The service of one job; every address is `host:port`."""

    dispatcher: str
    workers: tuple[str, ...]


def find_service(job: Cluster, group: str | None = None, environ: Mapping[str, str] = os.environ) -> Service:
    """Return the addresses: the dispatcher is on the data group's first host, a worker on each. Raises SettingError."""
    hosts = job.hosts_of(group or find_data_group(job, environ))
    serving = {peer.host for peer in hosts}
    everywhere = environ.get(WORKERS) == "all"
    workers = [*hosts, *(peer for peer in job.hosts if everywhere and peer.host not in serving)]
    number = read_port(WORKER_SWITCH, WORKER_PORT, environ)
    first = addresses.join_host_port(hosts[0].address, read_port(DISPATCHER_SWITCH, DISPATCHER_PORT, environ))
    return Service(first, tuple(addresses.join_host_port(peer.address, number) for peer in workers))


def find_data_group(job: Cluster, environ: Mapping[str, str] = os.environ) -> str:
    """Return the group that serves: with tf.data as program, of that name, else the only one that does not train."""
    stated = environ.get(GROUP, "")
    if stated or USUAL_GROUP in job.groups:
        return stated or USUAL_GROUP
    others = [group for group in job.groups if group not in job.training_groups]
    if len(others) == 1 and job.training_groups:
        return others[0]
    raise SettingError(
        f"tf.data.service: the job has no data hosts: its groups are {list(job.groups)}, none is called"
        f' {USUAL_GROUP!r}, and none has the program tf.data; set DLC_GROUP_PROGRAMS=\'{{"NAME": "tf.data"}}\', or'
        " state the group with group="
    )


def read_port(name: str, default: int, environ: Mapping[str, str] = os.environ) -> int:
    """Return the port that a variable names. Raises SettingError for a number that is none."""
    text = environ.get(name) or str(default)
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise SettingError(f"{name}: expected a port from 1 to 65535, found {text!r}")
    return int(text)


def read_ports(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return the dispatcher's and the workers' port. Raises SettingError if they are the same."""
    found = read_port(DISPATCHER_SWITCH, DISPATCHER_PORT, environ), read_port(WORKER_SWITCH, WORKER_PORT, environ)
    if found[0] == found[1]:
        raise SettingError(f"{DISPATCHER_SWITCH}, {WORKER_SWITCH}: expected two ports, found {found[0]} for both")
    return found


def require_tensorflow() -> None:
    """Raise MissingPackageError if this Python has no TensorFlow."""
    if importlib.util.find_spec("tensorflow") is None:
        raise MissingPackageError(
            "tf.data.service is a part of TensorFlow, and this Python has none; use a TensorFlow image on every host of"
            " the job, or dlc_runtime.dataservice, which serves PyTorch's batches"
        )


def wait_for_service(service: Service, job: Cluster, patience: float) -> None:
    """Return when the dispatcher and a worker take connections; TensorFlow would wait without a bound, and silently."""
    bypass_proxies([service.dispatcher, *service.workers])
    wait_for_one([service.dispatcher], "the dispatcher", patience, job=job)
    if service.workers:
        wait_for_one(service.workers, "any worker", patience, job=job)


def wait_for_one(
    targets: Sequence[str],
    what: str,
    patience: float,
    is_ended: Callable[[], bool] = lambda: False,
    job: Cluster | None = None,
) -> None:
    """Return when one of the targets takes a connection.

    Raises ServersLostError after `patience` seconds, or as soon as the programs of the targets' hosts in the `job` have
    ended.
    """
    deadline = time.monotonic() + patience
    reasons: dict[str, str] = {}
    while not is_ended():
        # Read first: a server that ends afterwards did answer.
        gone = _find_ended(targets, job)
        for where in targets:
            try:
                _connect(where, max(0.1, min(CONNECT_SECONDS, deadline - time.monotonic())))
            except (OSError, UnicodeError) as error:
                reasons[where] = str(error)
            else:
                return
        if gone:
            raise ServersLostError(
                f"tf.data.service: {what} cannot be reached: the program of {gone} has ended; let it call serve() on"
                " each host that does not train: serve returns when the training has ended"
            )
        if time.monotonic() > deadline:
            said = "; ".join(f"{where}: {why}" for where, why in reasons.items())
            raise ServersLostError(
                f"tf.data.service: {what} cannot be reached within {patience:g} s: {said}; see the data hosts' logs,"
                f" and whether the network lets this port through ({DISPATCHER_SWITCH} and {WORKER_SWITCH} name others)"
            )
        time.sleep(PAUSE_SECONDS)


def _find_ended(targets: Sequence[str], job: Cluster | None) -> str:
    """Return the targets' hosts if the launcher says that the program of each has ended; else nothing."""
    named = {peer.address: peer.host for peer in job.hosts} if job else {}
    hosts = {named.get(_split(where)[0], "") for where in targets}
    return ", ".join(sorted(hosts)) if hosts <= cluster_facts.read_ended_hosts() else ""


def count_processes(job: Cluster, serving: str, environ: Mapping[str, str] = os.environ) -> int:
    """Return how many processes train, as far as this one can know; 0 if it cannot."""
    sizes = {environ[name] for name in ("WORLD_SIZE", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE") if environ.get(name)}
    hosts = sum(peer.group != serving for peer in job.hosts)
    if not sizes:
        return 0 if "TF_CONFIG" in environ and hosts != _count_workers(environ["TF_CONFIG"]) else hosts
    size = sizes.pop()
    return int(size) if not sizes and size.isdigit() and int(size) >= hosts else 0


def _count_workers(config: str) -> int:
    """Return how many tasks of tf.distribute train."""
    cluster = json.loads(config or "{}").get("cluster", {})
    return sum(len(cluster.get(task, ())) for task in ("chief", "master", "worker"))


def bypass_proxies(targets: Sequence[str], environ: dict[str, str] | os._Environ[str] = os.environ) -> None:
    """Let gRPC connect to the job's hosts directly if a proxy is set for the rest of the world."""
    if any(environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        known = environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""
        hosts = dict.fromkeys([*filter(None, known.split(",")), *(_split(where)[0] for where in targets)])
        environ["no_grpc_proxy"] = ",".join(hosts)


def _connect(where: str, seconds: float) -> None:
    with contextlib.closing(socket.create_connection(_split(where), timeout=seconds)):
        pass


def _split(where: str) -> tuple[str, int]:
    host, _, number = where.rpartition(":")
    if not host or not number.isdigit():
        raise SettingError(f"tf.data.service: expected host:port, found {where!r}")
    return host.strip("[]"), int(number)
