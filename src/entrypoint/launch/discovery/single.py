"""The cluster of a container that nobody told anything: itself. Refused where its platform started several of us."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import Paths
from launch.discovery.cluster import SINGLE_HOST, Cluster, plain

HOST = "algo-1"  # what scripts written for one host expect; a container's own host name is a random number

# Variables with a number of hosts or ranks, and who sets them.
NUMBERS = {
    "AWS_BATCH_JOB_NUM_NODES": "a multi-node job of AWS Batch",
    "OMPI_COMM_WORLD_SIZE": "a rank below somebody's mpirun",
    "PMI_SIZE": "a rank below somebody's mpiexec",
    "PBS_NUM_NODES": "a PBS job",
    "NHOSTS": "a Grid Engine job",
}


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster:
    """One host, never resolved: it talks to nobody. Raises LaunchError where one of NUMBERS is more than 1."""
    for name, who in NUMBERS.items():
        if re.fullmatch(r"0*([2-9]|[1-9]\d+)", environ.get(name, "")):
            raise LaunchError(
                CONFIG,
                f"{who}, which is not wired to the launcher: each host would train alone",
                where=name,
                expected="1, or the job's hosts in DLC_HOSTS",
                found=environ[name],
                remedy="set DLC_HOSTS to the hosts and DLC_RANK to this one's place; for a job of this host alone "
                "DLC_HOSTS to its name",
            )
    return plain(SINGLE_HOST, [HOST], HOST, SINGLE_HOST, environ)
