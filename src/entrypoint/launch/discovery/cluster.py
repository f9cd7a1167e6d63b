"""The hosts of a job as one value, and the value of a host alone. Imports base."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, DATA, LaunchError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


# SageMaker's name for the only group of an ordinary job
DEFAULT_GROUP = "homogeneousCluster"
DEFAULT_INTERFACE = "eth0"
LOCAL_INSTANCE = "local"
# The discoverer of a host to which nobody said anything
SINGLE_HOST = "single host"
# Discoverers whose only host has a name of ours
NAMING_NO_HOST = (SINGLE_HOST, "torchrun's variables")

_HOST_NAME = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9_.:%\[\]-]{0,252}")
_IP_ADDRESS = re.compile(r"[0-9.]+")
_INTERFACE = re.compile(r"[^\s/\0,-][^\s/\0,]{0,63}")


class Group(NamedTuple):
    """Hosts of one instance type, in the order in which the place lists them (which need not be sorted)."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


class Task(NamedTuple):
    """This launcher's place if the place starts a launcher for every rank, not one for every host."""

    rank: int
    world_size: int
    local_rank: int
    local_size: int


class Cluster(NamedTuple):
    """Every host of the job, which of them this one is, and how they are grouped."""

    # The discoverer's name
    source: str
    hosts: tuple[str, ...]
    current_host: str
    # Empty in local mode; SageMaker may list one name more than once
    groups: tuple[Group, ...] = ()
    current_group: str = DEFAULT_GROUP
    instance_type: str = LOCAL_INSTANCE
    network_interface: str = DEFAULT_INTERFACE
    # As read, or in the same shape, for SM_RESOURCE_CONFIG
    resource_config: Mapping[str, Any] = {}
    task: Task | None = None
    # Hosts that only serve the others and never end by themselves
    servers: tuple[str, ...] = ()
    # SageMaker's rule if nobody says which groups are distributed
    each_group_is_a_job: bool = False

    @property
    def is_heterogeneous(self) -> bool:
        """Count as SageMaker's toolkit does: more than one group is listed."""
        return len(self.groups) > 1

    @property
    def is_nameless(self) -> bool:
        """Return whether the job has one host, and nobody gave it a name that resolves."""
        return len(self.hosts) == 1 and self.source in NAMING_NO_HOST

    @property
    def current_group_hosts(self) -> tuple[str, ...]:
        """Return the hosts of the first group with the current group's name, () if no group has it."""
        return next((group.hosts for group in self.groups if group.name == self.current_group), ())

    def hosts_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts of the named groups, in file order; all hosts if the job has no groups at all."""
        if not self.groups:
            return self.hosts
        return tuple(host for group in self.groups if group.name in names for host in group.hosts)


def make_cluster(
    source: str,
    hosts: Sequence[str],
    current_host: str,
    where: str,
    environ: Mapping[str, str],
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Cluster:
    """Make a cluster from hosts that did not come from resourceconfig.json. `groups`: name -> hosts, all in one.

    Raises LaunchError if no host is listed, one twice, a name is invalid, or the current host is not listed.
    """
    interface = environ.get("DLC_NETWORK_INTERFACE") or interface_of_default_route()
    check_hosts(where, "hosts", hosts)
    check_member(where, "current host", current_host, hosts)
    check_interface(where, interface)
    config: dict[str, Any] = {
        "current_host": current_host,
        "hosts": list(hosts),
        "network_interface_name": interface,
    }
    cluster = Cluster(source, tuple(hosts), current_host, network_interface=interface)
    if not groups:
        return cluster._replace(resource_config=config)
    current = next(name for name, members in groups.items() if current_host in members)
    config["current_group_name"] = current
    config["instance_groups"] = [
        {"instance_group_name": name, "instance_type": LOCAL_INSTANCE, "hosts": list(members)}
        for name, members in groups.items()
    ]
    return cluster._replace(
        groups=tuple(Group(name, LOCAL_INSTANCE, tuple(members)) for name, members in groups.items()),
        current_group=current,
        resource_config=config,
    )


def match_host(hosts: Sequence[str], name: str) -> str:
    """Return the host that a machine called `name` is, "" for none: `train-1` is also `train-1.service`."""
    if name in hosts:
        return name
    # Skip IP addresses: their first part is not a name
    names = [host for host in hosts if not _IP_ADDRESS.fullmatch(host)]
    found = [host for host in names if host.partition(".")[0] == name.partition(".")[0]]
    return found[0] if len(found) == 1 else ""


def interface_of_default_route() -> str:
    """Return the interface that leads out of this machine, loopback if none does."""
    try:
        with open("/proc/net/route", encoding="ascii", errors="replace") as file:
            routes = [line.split() for line in file][1:]
    except OSError:
        return DEFAULT_INTERFACE
    return next((route[0] for route in routes if len(route) > 1 and route[1] == "00000000"), "lo")


def check_hosts(where: str, key: str, hosts: object) -> tuple[str, ...]:
    """Return `hosts` as a tuple. Raises LaunchError unless it lists at least one host, each once, each a host name."""
    if not isinstance(hosts, (list, tuple)) or not hosts:
        raise LaunchError(DATA, key, where=where, expected="a list of at least one host name", found=shown(hosts))
    for host in hosts:
        if not isinstance(host, str) or not _HOST_NAME.fullmatch(host):
            raise LaunchError(DATA, key, where=where, expected="host names or addresses", found=shown(host))
    if len(set(hosts)) != len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        raise LaunchError(DATA, key, where=where, expected="each host once", found=f"{shown(twice)} twice")
    return tuple(hosts)


def check_member(where: str, key: str, host: str, hosts: Sequence[str]) -> None:
    """Raise LaunchError unless `host` is one of `hosts`."""
    if host not in hosts:
        raise LaunchError(DATA, key, where=where, expected=f"one of {shown(list(hosts))}", found=shown(host))


def check_interface(where: str, name: object) -> str:
    """`name` as a network interface's name, which must not be taken for an option or a list."""
    if not isinstance(name, str) or not _INTERFACE.fullmatch(name):
        raise LaunchError(
            DATA, "network_interface_name", where=where, expected="the name of an interface", found=shown(name)
        )
    return name


# What scripts written for one host expect; a container's own host name is a random number
HOST = "algo-1"

# Variables with a number of hosts or ranks, and who sets them.
NUMBERS = {
    "AWS_BATCH_JOB_NUM_NODES": "a multi-node job of AWS Batch",
    "OMPI_COMM_WORLD_SIZE": "a rank below somebody's mpirun",
    "PMI_SIZE": "a rank below somebody's mpiexec",
    "PBS_NUM_NODES": "a PBS job",
    "NHOSTS": "a Grid Engine job",
}


def discover_single_host(environ: Mapping[str, str]) -> Cluster:
    """Return one host, never resolved: it talks to nobody. Raises LaunchError if one of NUMBERS is above 1."""
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
    return make_cluster(SINGLE_HOST, [HOST], HOST, SINGLE_HOST, environ)
