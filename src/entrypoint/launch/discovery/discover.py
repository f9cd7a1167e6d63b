"""Asks each source of the job's hosts in order. Imports the sources by name, so that only those asked are loaded."""

from __future__ import annotations

from launch.base import compat
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, discover_single_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


# In this order: module and function(environ, paths) -> Cluster | None, None meaning "not mine".
DISCOVERERS = {
    "DLC_HOSTS": "launch.discovery.dlc_hosts:discover",
    "resourceconfig.json": "launch.discovery.resourceconfig:discover",
    "Slurm": "launch.discovery.slurm:discover",
    "MPIJob": "launch.discovery.kubeflow:discover_mpi_job",
    "torchrun's variables": "launch.discovery.kubeflow:discover_torch_job",
    "TF_CONFIG": "launch.discovery.tf_config:discover",
    "Kubernetes": "launch.discovery.kubernetes:discover",
}

# What has to be set, one at least, for a discoverer to be worth its import; those that are not here are always asked.
VARIABLES = {
    "DLC_HOSTS": ("DLC_HOSTS", "DLC_GROUPS"),
    "Slurm": ("SLURM_JOB_ID", "SLURM_STEP_NODELIST"),
    "MPIJob": ("K_MPI_JOB_ROLE", "OMPI_MCA_orte_default_hostfile"),
    "torchrun's variables": ("PET_NNODES", "WORLD_SIZE"),
    "TF_CONFIG": ("TF_CONFIG",),
    "Kubernetes": ("JOB_COMPLETION_INDEX",),
}


def discover(environ: Mapping[str, str], paths: Paths) -> Cluster:
    """Return the cluster, from the first discoverer that knows it. Raises LaunchError if its source is malformed."""
    for name, place in DISCOVERERS.items():
        if name in VARIABLES and not any(variable in environ for variable in VARIABLES[name]):
            continue
        module, _, function = place.partition(":")
        cluster: Cluster | None = getattr(compat.load_module(module), function)(environ, paths)
        if cluster is not None:
            return cluster
    return discover_single_host(environ)
