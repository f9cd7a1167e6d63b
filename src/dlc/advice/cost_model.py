"""Machines and clusters, how long a step takes on a cluster, and what it costs. Pure.

A step trains one batch on each accelerator. It takes as long as the slowest of three: the accelerators with the data
ready, the vCPUs that prepare the batches, and the network between data hosts and training hosts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlc.buildspec.instances import Instances
from dlc.buildspec.models import UNKNOWN
from dlc.checked_yaml.problems import did_you_mean
from dlc.core.errors import UsageError

PART = re.compile(r"(?:(?P<count>[0-9]{1,6})\s*[*x]\s*)?(?:ml\.)?(?P<type>[a-z][a-z0-9\-]*\.[a-z0-9\-]+)")
EVERYWHERE, DATA_HOSTS = "everywhere", "data-hosts"
COMPUTING, PREPROCESSING, NETWORK, MEASURED = "computing", "preprocessing", "network", "measured"
# What more vCPUs would change or not change: the bounds that this model knows.
MODELLED = (COMPUTING, PREPROCESSING, NETWORK)
BITS = 8


@dataclass(frozen=True)
class Machine:
    """One type of machine; `price` is US dollars for an hour, None if it is unknown."""

    name: str
    vcpus: int
    gpus: int
    gpu: str
    # GiB.
    memory: float
    # Gbit/s.
    network: float
    efa: bool
    price: float | None
    price_from: str = ""

    @property
    def family(self) -> str:
        """Return `g5` for g5.8xlarge."""
        return self.name.partition(".")[0]


Catalogue = Mapping[str, Machine]


@dataclass(frozen=True)
class Cluster:
    """Training hosts of one type, and data hosts of another, if there are any."""

    training: Machine
    hosts: int = 1
    data: Machine | None = None
    data_hosts: int = 0

    @property
    def gpus(self) -> int:
        """Return the batches of one step: one for each accelerator, or one for a host without any."""
        return self.hosts * max(self.training.gpus, 1)

    @property
    def own_vcpus(self) -> int:
        """Return the vCPUs of the training hosts."""
        return self.hosts * self.training.vcpus

    @property
    def data_vcpus(self) -> int:
        """Return the vCPUs of the data hosts."""
        return self.data_hosts * self.data.vcpus if self.data else 0

    @property
    def vcpus_per_gpu(self) -> float:
        """Return the vCPUs of all hosts for each accelerator."""
        return (self.own_vcpus + self.data_vcpus) / self.gpus

    @property
    def price(self) -> float | None:
        """Return US dollars for an hour of all hosts; None if a price is unknown."""
        if self.training.price is None or (self.data and self.data.price is None):
            return None
        return self.hosts * self.training.price + (
            self.data_hosts * self.data.price if self.data and self.data.price else 0
        )

    def __str__(self) -> str:
        own = _count_machines(self.hosts, self.training)
        return f"{own} + {_count_machines(self.data_hosts, self.data)}" if self.data else own


def _count_machines(count: int, machine: Machine) -> str:
    return machine.name if count == 1 else f"{count} x {machine.name}"


def make_catalogue(instances: Instances, prices: Mapping[str, float]) -> Catalogue:
    """Return the machines by their type, with the user's own prices."""
    machines: dict[str, Machine] = {}
    for name, known in instances.instances.items():
        price = known.price
        usd = None if price.usd == UNKNOWN else float(price.usd)
        machines[name] = Machine(
            name, int(known.vcpus), int(known.gpus), known.gpu, float(known.memory),
            float(known.network.removeprefix("up to ")), known.efa == "yes", usd,
            f"{price.source}, {price.date}" if usd is not None else "",
        )  # fmt: skip
    for name, usd in prices.items():
        machine = find_machine(machines, name, f"--price {name}")
        machines[machine.name] = replace(machine, price=usd, price_from="--price")
    return machines


def find_machine(machines: Catalogue, name: str, where: str) -> Machine:
    """Find a machine by its type. Raises UsageError for a type that the catalogue lacks."""
    plain = name.strip().removeprefix("ml.")
    if plain not in machines:
        near = did_you_mean(plain, machines) or f"known: {', '.join(machines)}"
        raise UsageError(f"{where}: no machine {plain!r} is known; {near}",
                         "in a checkout of dlc, buildspec/instances.yml takes more machines")  # fmt: skip
    return machines[plain]


def parse_cluster(machines: Catalogue, text: str, where: str) -> Cluster:
    """Parse `p4d.24xlarge+2*c5.18xlarge`: training hosts first, then data hosts. Raises UsageError."""
    parts = [PART.fullmatch(part.strip()) for part in text.split("+")]
    if len(parts) not in (1, 2) or any(part is None for part in parts):
        raise UsageError(
            f"{where}: expected [N*]TYPE or [N*]TYPE+[N*]TYPE such as p4d.24xlarge+2*c5.18xlarge, found {text!r}"
        )
    found = [(int(part["count"] or 1), find_machine(machines, part["type"], where)) for part in parts if part]
    if any(count < 1 for count, _ in found):
        raise UsageError(f"{where}: expected at least one host of each type, found {text!r}")
    (hosts, training), *data = found
    return Cluster(training, hosts, data[0][1], data[0][0]) if data else Cluster(training, hosts)


@dataclass(frozen=True)
class Workload:
    """What was measured of a job.

    `step` is the seconds of a step with the data ready, `cpu` the CPU seconds that prepare one batch for one
    accelerator, `cpu_elsewhere` the same on a data host; none of them is 0. `where` says which hosts prepare data once
    there are data hosts.
    """

    step: float
    cpu: float
    cpu_elsewhere: float
    batch_bytes: float = 0.0
    where: str = EVERYWHERE
    # Processes that prepare data on a data host; 0: one for each vCPU.
    data_workers: int = 0

    @property
    def vcpus_per_gpu(self) -> float:
        """Return how many vCPUs each accelerator needs to be never without data."""
        return self.cpu / self.step


@dataclass(frozen=True)
class Estimate:
    """A step on a cluster: its seconds, what bounds it, and the share of it that accelerators work; None: unknown."""

    cluster: Cluster
    seconds: float
    bound: str
    use: float | None
    # Seconds that preprocessing on the accelerator adds to each step.
    extra: float = 0.0

    @property
    def steps_per_second(self) -> float:
        return 1 / self.seconds

    @property
    def cost(self) -> float | None:
        """Return US dollars for 1000 steps; None if a price is unknown."""
        price = self.cluster.price
        return None if price is None else price / 3600 * self.seconds * 1000


def estimate_step(cluster: Cluster, job: Workload, extra: float = 0.0) -> Estimate:
    """Estimate a step. With `extra`, the accelerators prepare the data themselves and need that much longer."""
    computing = job.step + extra
    preparing = 0.0 if extra else cluster.gpus / batches_per_second(cluster, job)
    seconds = {COMPUTING: computing, PREPROCESSING: preparing, NETWORK: estimate_sending(cluster, job)}
    bound = max(seconds, key=lambda name: seconds[name])
    return Estimate(cluster, seconds[bound], bound, computing / seconds[bound], extra)


def batches_per_second(cluster: Cluster, job: Workload) -> float:
    """Return the batches for one accelerator that all vCPUs together prepare."""
    own = cluster.own_vcpus / job.cpu if prepares_itself(cluster, job) else 0.0
    return own + count_workers(cluster, job) / job.cpu_elsewhere


def count_workers(cluster: Cluster, job: Workload) -> int:
    """Count the vCPUs of data hosts that prepare data."""
    if cluster.data is None:
        return 0
    return cluster.data_hosts * min(job.data_workers or cluster.data.vcpus, cluster.data.vcpus)


def prepares_itself(cluster: Cluster, job: Workload) -> bool:
    """Tell whether the training hosts prepare data too."""
    return cluster.data is None or job.where == EVERYWHERE


def estimate_sending(cluster: Cluster, job: Workload) -> float:
    """Estimate the seconds in which the network brings the batches of one step that data hosts prepare."""
    if cluster.data is None or not job.batch_bytes:
        return 0.0
    share = count_workers(cluster, job) / job.cpu_elsewhere / batches_per_second(cluster, job)
    gigabits = min(cluster.hosts * cluster.training.network, cluster.data_hosts * cluster.data.network)
    return share * job.batch_bytes * cluster.gpus * BITS / (gigabits * 1e9)


def compute_speedup(before: Estimate, after: Estimate) -> float:
    """Return how many times as many steps are done in the same time."""
    return before.seconds / after.seconds


def compute_saving(before: Estimate, after: Estimate) -> float | None:
    """Return the part of the cost of a step that is saved; negative if it costs more."""
    return None if before.cost is None or after.cost is None else 1 - after.cost / before.cost


def find_step_limit(before: Estimate, after: Estimate) -> float | None:
    """Return the break-even: the seconds of a step below which `after` costs less for each step."""
    prices = before.cluster.price, after.cluster.price
    if prices[0] is None or not prices[1]:
        return None
    return prices[0] * before.seconds / prices[1]


def find_cpu_limit(before: Cluster, after: Cluster, job: Workload) -> float | None:
    """Return the break-even: CPU seconds for a batch from which on `after` costs less.

    None: never, or a price is unknown.
    """
    if before.price is None or not after.price:
        return None
    each_before, each_after = (c.gpus / batches_per_second(c, job) / job.cpu for c in (before, after))
    least = max(job.step, estimate_sending(after, job))
    found = after.price / before.price * least / each_before
    return found if found * each_after <= least * (1 + 1e-9) else None
