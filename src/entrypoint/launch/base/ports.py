"""The TCP ports of a job: each settable, and derived from the job's id where jobs of one cluster share a node."""

from __future__ import annotations

import zlib

from launch.base.switches import port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP, MPI, HOROVOD, MASTER = "DLC_GROUP_PORT", "DLC_MPI_PORT", "DLC_HOROVOD_PORT", "DLC_MASTER_PORT"
RAY = "DLC_RAY_PORT"
TF_WORKER, TF_SERVER, TF_MULTI_WORKER = "DLC_TF_WORKER_PORT", "DLC_TF_SERVER_PORT", "DLC_TF_MULTI_WORKER_PORT"

# switch -> default; the last four are the platform's own
DEFAULTS = {
    GROUP: 7790,
    MPI: 7791,
    HOROVOD: 7778,
    RAY: 6379,
    MASTER: 7777,
    TF_WORKER: 2222,
    TF_SERVER: 2223,
    TF_MULTI_WORKER: 8890,
}
FIRST, BLOCKS, BLOCK = 20000, 1500, 8  # derived ports: 20000 to 31999, below those that the kernel gives out


def of(environ: Mapping[str, str], name: str) -> int:
    """The port that a switch names. Every host of the job comes to the same one. Raises LaunchError for no port."""
    job = _shared_nodes_job(environ)
    default = DEFAULTS[name]
    if job:
        default = FIRST + zlib.crc32(job.encode()) % BLOCKS * BLOCK + list(DEFAULTS).index(name)
    return port(environ, name, default)


def _shared_nodes_job(environ: Mapping[str, str]) -> str:
    """The id of the job where its nodes may run another one as well; empty elsewhere."""
    job = environ.get("SLURM_JOB_ID", "")
    return f"{job}.{environ.get('SLURM_STEP_ID', '')}" if job and "SLURM_STEP_NODELIST" in environ else ""
