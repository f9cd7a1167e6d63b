"""The machines of the catalogue as numbers, and clusters of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlc.buildspec.instances import Instances
from dlc.buildspec.models import UNKNOWN
from dlc.buildspec.problems import did_you_mean
from dlc.core.errors import UsageError

PART = re.compile(r"(?:(?P<count>[0-9]{1,6})\s*[*x]\s*)?(?:ml\.)?(?P<type>[a-z][a-z0-9\-]*\.[a-z0-9\-]+)")


@dataclass(frozen=True)
class Machine:
    """One type of machine; `price` is US dollars for an hour, None where it is unknown."""

    name: str
    vcpus: int
    gpus: int
    gpu: str
    memory: float  # GiB
    network: float  # Gbit/s
    efa: bool
    price: float | None
    price_from: str = ""

    @property
    def family(self) -> str:
        """`g5` of g5.8xlarge."""
        return self.name.partition(".")[0]


Catalogue = Mapping[str, Machine]


@dataclass(frozen=True)
class Cluster:
    """Training hosts of one type, and data hosts of another where there are any."""

    training: Machine
    hosts: int = 1
    data: Machine | None = None
    data_hosts: int = 0

    @property
    def gpus(self) -> int:
        """Batches of one step: one for each accelerator, one for a host without any."""
        return self.hosts * max(self.training.gpus, 1)

    @property
    def own_vcpus(self) -> int:
        """vCPUs of the training hosts."""
        return self.hosts * self.training.vcpus

    @property
    def data_vcpus(self) -> int:
        """vCPUs of the data hosts."""
        return self.data_hosts * self.data.vcpus if self.data else 0

    @property
    def vcpus_per_gpu(self) -> float:
        """Of all hosts together."""
        return (self.own_vcpus + self.data_vcpus) / self.gpus

    @property
    def price(self) -> float | None:
        """US dollars for an hour of all hosts; None where a price is unknown."""
        if self.training.price is None or (self.data and self.data.price is None):
            return None
        return self.hosts * self.training.price + (
            self.data_hosts * self.data.price if self.data and self.data.price else 0
        )

    def __str__(self) -> str:
        own = _counted(self.hosts, self.training)
        return f"{own} + {_counted(self.data_hosts, self.data)}" if self.data else own


def _counted(count: int, machine: Machine) -> str:
    return machine.name if count == 1 else f"{count} x {machine.name}"


def catalogue(instances: Instances, prices: Mapping[str, float]) -> Catalogue:
    """The machines by their type, with the user's own prices."""
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
        machine = find(machines, name, f"--price {name}")
        machines[machine.name] = replace(machine, price=usd, price_from="--price")
    return machines


def find(machines: Catalogue, name: str, where: str) -> Machine:
    """Raises UsageError for a type that the catalogue lacks."""
    plain = name.strip().removeprefix("ml.")
    if plain not in machines:
        near = did_you_mean(plain, machines) or f"known: {', '.join(machines)}"
        raise UsageError(f"{where}: no machine {plain!r} in buildspec/instances.yml; {near}",
                         "add the machine to buildspec/instances.yml")  # fmt: skip
    return machines[plain]


def parse_cluster(machines: Catalogue, text: str, where: str) -> Cluster:
    """`p4d.24xlarge+2*c5.18xlarge`: training hosts first, then data hosts. Raises UsageError."""
    parts = [PART.fullmatch(part.strip()) for part in text.split("+")]
    if len(parts) not in (1, 2) or any(part is None for part in parts):
        raise UsageError(
            f"{where}: expected [N*]TYPE or [N*]TYPE+[N*]TYPE such as p4d.24xlarge+2*c5.18xlarge, found {text!r}"
        )
    found = [(int(part["count"] or 1), find(machines, part["type"], where)) for part in parts if part]
    if any(count < 1 for count, _ in found):
        raise UsageError(f"{where}: expected at least one host of each type, found {text!r}")
    (hosts, training), *data = found
    return Cluster(training, hosts, data[0][1], data[0][0]) if data else Cluster(training, hosts)
