"""Variables for NCCL, libfabric, OpenMP and Python that follow from this host's devices. The user's own values win."""

from __future__ import annotations

from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices


def network_variables(cluster: Cluster, devices: Devices) -> dict[str, str]:
    """What a process that talks to other processes needs, wherever it runs."""
    variables = {"NCCL_SOCKET_IFNAME": cluster.network_interface}
    if len(cluster.hosts) > 1 and cluster.network_interface in devices.interfaces:
        variables["GLOO_SOCKET_IFNAME"] = cluster.network_interface
    if devices.num_gpus:
        variables["NCCL_DEBUG"] = "WARN"
    if devices.efa:
        variables["FI_PROVIDER"] = "efa"
        variables["RDMAV_FORK_SAFE"] = "1"
    if devices.efa_rdma:
        variables["FI_EFA_USE_DEVICE_RDMA"] = "1"
    return variables


def thread_variables(devices: Devices, processes_per_host: int) -> dict[str, str]:
    """Each of several processes gets its share of the CPUs; one process alone keeps its library's default."""
    if processes_per_host < 2:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, devices.usable_cpus // processes_per_host))}
