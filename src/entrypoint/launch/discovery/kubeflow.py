"""The cluster as Kubeflow tells it: an MPIJob's launcher pod, or torchrun's variables. Imports base and cluster.

Of an MPIJob only the launcher pod runs us; mpirun finds the workers in the operator's host file. PET_* of Trainer v2
and RANK and WORLD_SIZE of a PyTorchJob name the first host and say how many there are; the others' names follow from
how Kubeflow numbers pods: <job>-master-0, <job>-worker-0, <job>-worker-1 in a PyTorchJob, <job>-node-0-0,
<job>-node-0-1 in Trainer v2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import HOST, Cluster, make_cluster

MPI_JOB = "MPIJob"
# Where the operator mounts it
HOST_FILE_PATH = "/etc/mpi/hostfile"
# What the operator tells Open MPI
HOST_FILE = "OMPI_MCA_orte_default_hostfile"
SSH_PORT = 22


def discover_mpi_job(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """Return one host, whose mpirun starts ranks on others; None outside of an MPIJob.

    Raises LaunchError on a worker: what it has to run is sshd, which the operator starts if nothing else is stated.
    """
    role = environ.get("K_MPI_JOB_ROLE")
    if role == "worker":
        raise LaunchError(
            CONFIG,
            "a worker of an MPIJob: it would train alone",
            where="K_MPI_JOB_ROLE",
            expected="the launcher",
            found=shown(role),
            remedy="state neither command nor args for the MPIJob's workers: the operator starts sshd in them",
        )
    if role != "launcher" and not (environ.get(HOST_FILE) and "KUBERNETES_SERVICE_HOST" in environ):
        return None
    return make_cluster(MPI_JOB, [HOST], HOST, MPI_JOB, environ)


def worker_hosts(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of the operator's host file in the order of ranks, () if it cannot be read."""
    try:
        with open(environ.get(HOST_FILE) or HOST_FILE_PATH, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError:
        return ()
    return tuple(words[0].partition(":")[0] for words in lines if words and not words[0].startswith("#"))


def ssh_servers(environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return what mpirun connects to: the port of sshd on each worker, none if the user has chosen another way.

    A launcher pod that is a worker too needs no sshd for itself.
    """
    options = environ.get("OMPI_MCA_plm_rsh_args", "")
    if environ.get("OMPI_MCA_plm_rsh_agent") or re.search(r"-p\s*\d|Port", options):
        return []
    own = ("localhost", environ.get("HOSTNAME", ""))
    return [(host, SSH_PORT) for host in worker_hosts(environ) if host.partition(".")[0] not in own]


TORCH_VARIABLES = "torchrun's variables"
MOST_HOSTS = 100_000
REMEDY = "set DLC_HOSTS to the hosts and DLC_RANK to this one's place; for a job of one host DLC_HOSTS to its name"


def discover_torch_job(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """Return the job's pods; None if neither PET_NNODES nor RANK, WORLD_SIZE and MASTER_ADDR are set.

    Raises LaunchError.
    """
    hosts = _number_of_hosts(environ)
    if hosts is None:
        return None
    if hosts == 1:
        return make_cluster(TORCH_VARIABLES, [HOST], HOST, TORCH_VARIABLES, environ)
    names = _host_names(_first_host(environ), hosts)
    rank = _own_rank(environ, hosts)
    return make_cluster(TORCH_VARIABLES, names, names[rank], TORCH_VARIABLES, environ)


def _number_of_hosts(environ: Mapping[str, str]) -> int | None:
    stated = environ.get("PET_NNODES")
    if stated:
        least, _, most = stated.partition(":")
        if most and most != least and not environ.get("DLC_ELASTIC"):
            raise LaunchError(
                CONFIG,
                "a number of hosts that may change",
                where="PET_NNODES",
                expected="one number",
                found=shown(stated),
                remedy=f"set minReplicas to maxReplicas, or DLC_ELASTIC to {least}:{most}",
            )
        return _read_number("PET_NNODES", most or least, 1, MOST_HOSTS)
    if not all(environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")):
        return None
    # A PyTorchJob counts processes if it knows how many each host has.
    processes = environ.get("PET_NPROC_PER_NODE", "")
    size = _read_number("WORLD_SIZE", environ["WORLD_SIZE"], 1, MOST_HOSTS * 1024)
    return max(1, size // int(processes)) if re.fullmatch(r"[1-9]\d{0,3}", processes) else size


def _first_host(environ: Mapping[str, str]) -> str:
    """Return the first host's name. A PyTorchJob's master may call itself localhost."""
    endpoint = environ.get("PET_RDZV_ENDPOINT", "").rpartition(":")[0].strip("[]")
    first = environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR") or endpoint
    return environ.get("HOSTNAME", first) if first in ("localhost", "127.0.0.1", "::1") else first


def _host_names(first: str, hosts: int) -> list[str]:
    job, dot, domain = first.partition(".")
    domain = dot + domain
    if job.endswith("-master-0"):
        workers = (f"{job[: -len('-master-0')]}-worker-{number}{domain}" for number in range(hosts - 1))
        return [first, *workers]
    if job.endswith("-0"):
        return [f"{job[: -len('-0')]}-{number}{domain}" for number in range(hosts)]
    raise LaunchError(
        CONFIG,
        f"a job of {hosts} hosts, of which only the first is known: each would train alone",
        where="PET_MASTER_ADDR or MASTER_ADDR",
        expected="a pod's name that ends with -0",
        found=shown(first),
        remedy=REMEDY,
    )


def _own_rank(environ: Mapping[str, str], hosts: int) -> int:
    for name in ("PET_NODE_RANK", "RANK", "JOB_COMPLETION_INDEX"):
        if environ.get(name):
            return _read_number(name, environ[name], 0, hosts - 1)
    number = re.search(r"-(\d{1,6})$", environ.get("HOSTNAME", "").partition(".")[0])
    return _read_number("HOSTNAME", number[1] if number else "", 0, hosts - 1)


def _read_number(name: str, text: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise LaunchError(
            CONFIG, "malformed", where=name, expected=f"a number from {least} to {most}", found=shown(text)
        )
    return int(text)
