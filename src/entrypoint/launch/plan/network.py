"""Variables for NCCL, libfabric, OpenMP and Python that follow from this host's devices. The user's own values win."""

from __future__ import annotations

import json

from launch.base.compat import NamedTuple
from launch.base.paths import ENDED_HOSTS_FILE, PROGRAM_FILES
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


LOOPBACK = "127.0.0.1"


class Network(NamedTuple):
    """What the hosts of a group learned of each other when they met; empty for a host alone and before the meeting."""

    # Hosts whose names do not resolve here -> the address to use instead
    addresses: Mapping[str, str] = {}
    # host -> the address that its connections come from
    sources: Mapping[str, str] = {}
    # This host's addresses on the job's network; empty: all it has
    listen: tuple[str, ...] = ()
    # The secret (hexadecimal) needed to join the ranks' rendezvous and to start MPI
    secret: str = ""
    # The same for the data service of dlc_runtime
    data_token: str = ""
    # What this host's program may say -> the file that it makes to say it
    program_files: Mapping[str, str] = {}
    # Where it finds which hosts have ended; empty: nowhere
    ended_file: str = ""


def network_variables(cluster: Cluster, devices: Devices) -> dict[str, str]:
    """Return what a process that talks to other processes needs, wherever it runs."""
    variables = {"NCCL_SOCKET_IFNAME": cluster.network_interface}
    if len(cluster.hosts) > 1 and cluster.network_interface in devices.interfaces:
        variables["GLOO_SOCKET_IFNAME"] = cluster.network_interface
    if devices.num_gpus:
        variables["NCCL_DEBUG"] = "WARN"
    if devices.efa:
        variables["FI_PROVIDER"] = "efa"
        variables["RDMAV_FORK_SAFE"] = "1"
        variables["NCCL_PROTO"] = "simple"
    if devices.efa_rdma:
        variables["FI_EFA_USE_DEVICE_RDMA"] = "1"
    return variables


def data_service_variables(network: Network) -> dict[str, str]:
    """Return what dlc_runtime's data service cannot learn elsewhere: the job's secret, and hosts without a name."""
    variables = {"DLC_DATA_TOKEN": network.data_token} if network.data_token else {}
    variables.update((PROGRAM_FILES[what], path) for what, path in network.program_files.items())
    if network.ended_file:
        variables[ENDED_HOSTS_FILE] = network.ended_file
    if network.addresses:
        variables["DLC_HOST_ADDRESSES"] = json.dumps(dict(network.addresses), separators=(",", ":"))
    return variables


def address_of(host: str, cluster: Cluster, network: Network) -> str:
    """Return a host's name, its address if the name does not resolve, localhost if the only host has no name."""
    return "localhost" if cluster.is_nameless else network.addresses.get(host, host)


def join_host_port(host: str, port: int | str) -> str:
    """Return `host:port`; an IPv6 literal gets the brackets that tell its colons from the port's."""
    return f"{url_host(host)}:{port}"


def url_host(host: str) -> str:
    """Return the host as it stands in a URL or before a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def thread_variables(devices: Devices, processes_per_host: int) -> dict[str, str]:
    """Give each of several processes its share of the CPUs; one process alone keeps its library's default."""
    if processes_per_host < 2:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, devices.usable_cpus // processes_per_host))}
