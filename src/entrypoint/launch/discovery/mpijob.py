"""The launcher pod of a Kubeflow MPIJob: it alone runs us, and mpirun finds the workers in the operator's host file."""

from __future__ import annotations

from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, plain
from launch.discovery.single import HOST

SOURCE = "MPIJob"
HOST_FILE_PATH = "/etc/mpi/hostfile"  # where the operator mounts it
HOST_FILE = "OMPI_MCA_orte_default_hostfile"  # what the operator tells Open MPI


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """One host, whose mpirun starts ranks on others; None outside of an MPIJob.

    Raises LaunchError on a worker: what it has to run is sshd, which the operator starts where nothing else is stated.
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
    return plain(SOURCE, [HOST], HOST, SOURCE, environ)


def first_worker(environ: Mapping[str, str]) -> str:
    """The host of rank 0: the first of the operator's host file, "" where it cannot be read."""
    try:
        with open(environ.get(HOST_FILE) or HOST_FILE_PATH, encoding="utf-8", errors="replace") as file:
            words = (line.split() for line in file)
            return next((line[0].partition(":")[0] for line in words if line and not line[0].startswith("#")), "")
    except OSError:
        return ""
