"""Platforms that start several of us, but whose hosts we do not find out: refused, because each would train alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import Paths

# Variables with a number of hosts or ranks, and who sets them.
NUMBERS = {
    "AWS_BATCH_JOB_NUM_NODES": "a multi-node job of AWS Batch",
    "OMPI_COMM_WORLD_SIZE": "a rank below somebody's mpirun",
    "PMI_SIZE": "a rank below somebody's mpiexec",
    "PBS_NUM_NODES": "a PBS job",
    "NHOSTS": "a Grid Engine job",
}


def discover(environ: Mapping[str, str], _paths: Paths) -> None:
    """None for a host that really is alone. Raises LaunchError where one of NUMBERS is more than 1."""
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
