"""Which rank this is, where the data servers are, and the settings of a consumer with their bounds."""

from __future__ import annotations

import numbers
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.schedule.assignment import TAILS, WHEN_LOST, Share
from dlc_runtime.dataservice.wire import addresses
from dlc_runtime.dataservice.wire.frames import MOST_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Rank and number of ranks, as torchrun, Horovod and Open MPI tell them.
RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
# The name in SageMaker's examples.
DATA_GROUP = "data_group"
ORDERS = ("deterministic", "first_come")
# As many batches as come in this time are requested or held: while one side pauses, the other one works on.
QUICK_SECONDS = 0.02
# Batches for each worker, and their bytes.
MOST_QUICK = 64
MOST_QUICK_BYTES = 4 << 20
# As good as float("inf"), for which no lock can wait.
LONGEST_SECONDS = 1e9
# Of a batch, before the first one came.
UNKNOWN_BYTES = 4 << 20


def find_share(rank: int | None, world: int | None, environ: Mapping[str, str] = os.environ) -> Share:
    """Return this process among the training ranks. Raises SettingError for numbers that make no sense."""
    if rank is None or world is None:
        found = _share_of_torch() or _share_of_variables(environ) or _share_of_hosts(environ)
        rank, world = found.rank if rank is None else rank, found.world if world is None else world
    if not 0 <= rank < world:
        raise SettingError(f"RemoteLoader: expected a rank below the number of ranks, found rank {rank} of {world}")
    return Share(rank, world)


def find_servers(
    asked: Sequence[str] | None, group: str | None, port: int | None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the data hosts' control: `host:port` as people name it -> where it is reached.

    Raises SettingError if the job has no data group.
    """
    number = addresses.control_port(port, environ)
    if asked is not None:
        hosts = [] if isinstance(asked, str) else list(asked)
        if not hosts or not all(isinstance(host, str) and host for host in hosts):
            raise SettingError(f"RemoteLoader: servers: expected a list of host or host:port, found {asked!r}")
        return {name: name for name in (_with_port(host, number) for host in hosts)}
    job = cluster_facts.read(environ)
    peers = job.hosts_of(group or _find_data_group(job))
    return {_with_port(peer.host, number): _with_port(peer.address, number) for peer in peers}


def find_lease_server(asked: str | None, environ: Mapping[str, str] = os.environ) -> tuple[str, str, int]:
    """Return where training rank 0 keeps the leases: its own address, the one for others, the port.

    Rank 0 is on the first host of the first group that trains: so the launcher counts ranks.
    """
    number = addresses.lease_port(environ)
    if asked is not None:
        host, _, text = asked.rpartition(":") if _has_port(asked) else (asked, "", str(number))
        host = host.strip("[]")
        return host, host, addresses.check_port(text)
    job = cluster_facts.read(environ)
    first = job.hosts_of(job.training_groups[0])[0] if job.training_groups else job.peers[0]
    own = addresses.own_address(first.address, job.interface) if first.host == job.host else first.address
    return own, first.address, number


def _find_data_group(job: cluster_facts.Cluster) -> str:
    """Return the group that serves data: by name, else the only one that does not train."""
    if DATA_GROUP in job.groups or len(job.hosts) == 1:
        return DATA_GROUP if DATA_GROUP in job.groups else job.group
    others = [group for group in job.groups if group not in job.training_groups]
    if len(others) == 1 and job.training_groups:
        return others[0]
    raise SettingError(
        f"RemoteLoader: which instance group serves the data? There is no {DATA_GROUP!r} among {list(job.groups)};"
        " state it with group=, or the hosts with servers="
    )


def _share_of_torch() -> Share | None:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Share(distributed.get_rank(), distributed.get_world_size())
    return None


def _share_of_variables(environ: Mapping[str, str]) -> Share | None:
    for rank, world in RANK_VARIABLES:
        if environ.get(rank, "").isdigit() and environ.get(world, "").isdigit():
            return Share(int(environ[rank]), int(environ[world]))
    return None


def _share_of_hosts(environ: Mapping[str, str]) -> Share:
    job = cluster_facts.read(environ)
    return Share(job.rank, len(job.peers))


def _has_port(host: str) -> bool:
    """Return whether a port is named: `a:1` and `[::1]:1` have one, `a` and `::1` have none."""
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or host.startswith("["))


def _with_port(host: str, number: int) -> str:
    if _has_port(host):
        return host
    return f"[{host}]:{number}" if ":" in host and not host.startswith("[") else f"{host}:{number}"


class Settings(NamedTuple):
    """What a user may set; all times in seconds.

    `prefetch`: batches requested or held at most; None: eight for each worker, more of small ones that come fast.
    `elsewhere_after`: a late answer is requested from another server too. `deadline`: for one batch of the user's
    function. `patience`: without any server. `lost_after`: without a word of a rank that has leases.
    """

    order: str = "deterministic"
    prefetch: int | None = None
    prefetch_bytes: int = 256 << 20
    most_batch_bytes: int = MOST_BATCH
    elsewhere_after: float = 10.0
    deadline: float = 600.0
    patience: float = 300.0
    tail: str = "keep"
    when_lost: str = "fail"
    lost_after: float = 15.0

    @property
    def is_ordered(self) -> bool:
        return self.order == "deterministic"

    def window(self, workers: int, largest: int, each_second: float = 0.0) -> int:
        """Return how many batches may be requested or held: bounded in number and in bytes, at least two.

        `each_second`: how many come. With first_come a rank's requests are lost to a faster one.
        """
        workers, size = max(1, workers), max(1, largest or UNKNOWN_BYTES)
        quick = int(QUICK_SECONDS * each_second) if self.is_ordered else 0
        quick = min(quick, MOST_QUICK * workers, MOST_QUICK_BYTES * workers // size)
        wanted = self.prefetch or max(8 * workers, quick)
        return max(2, min(wanted, self.prefetch_bytes // size))

    def check(self) -> Settings:
        """Return itself with times that can be waited for. Raises SettingError."""
        stated = self._asdict()
        for name, choice in (("order", ORDERS), ("tail", TAILS), ("when_lost", WHEN_LOST)):
            if stated[name] not in choice:
                raise SettingError(f"RemoteLoader: {name}: expected one of {choice}, found {stated[name]!r}")
        if self.is_ordered and self.when_lost == "give_back":
            raise SettingError(
                "RemoteLoader: when_lost='give_back' needs order='first_come': a deterministic order names each rank's"
                " batches, so the loss of a rank has to fail the job"
            )
        times = ("elsewhere_after", "deadline", "patience", "lost_after")
        for name in ("prefetch", "prefetch_bytes", "most_batch_bytes", *times):
            value = stated[name]
            if (name, value) != ("prefetch", None) and not (isinstance(value, numbers.Real) and float(value) > 0):
                raise SettingError(f"RemoteLoader: {name}: expected a number above 0, found {value!r}")
        return self._replace(**{name: min(stated[name], LONGEST_SECONDS) for name in times})
