"""Machines of the catalogue, and what a job asks of one that it has not. Reads instances.yml alone.

May import core, buildspec, jobs.run, submit.places, submit.refusals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dlc.core.checkout import read_workspace
from dlc.jobs.run.limits import count_bytes
from dlc.submit.places import Refusal, SubmittedGroup
from dlc.submit.refusals import name_group_keys

if TYPE_CHECKING:
    from dlc.buildspec.instances import Instance

# SageMaker's name of an instance type begins so.
SAGEMAKER = "ml."
ALL = "all"
# Families of machines with accelerators, for types that the catalogue lacks.
ACCELERATED = re.compile(r"(p|g|trn|inf|dl)[0-9]")


# Families of which the name tells the size: c5.xlarge, m5.4xlarge.
PLAIN = re.compile(r"(?P<series>(c[5-9]|[mr][4-9])[a-z]*)\.(?P<times>[0-9]*)(?P<extra>x?)large")
GIB_OF_CPU = {"c": 2.0, "m": 4.0, "r": 8.0}


@dataclass(frozen=True)
class Size:
    """What a machine has."""

    cpus: int
    memory_gib: float
    gpus: int


@lru_cache(maxsize=1)
def _read_machines() -> dict[str, Instance]:
    # The models of the whole buildspec: most jobs name no instance type.
    from dlc.buildspec.instances import read_instances

    return dict(read_instances(read_workspace()).instances)


def find_machine(kind: str) -> Instance | None:
    """Return the machine of an instance type, with or without ml.; None for no type or one the catalogue lacks."""
    return _read_machines().get(kind.removeprefix(SAGEMAKER)) if kind else None


def find_size(kind: str) -> Size | None:
    """Return what a machine has, from the catalogue or from its name; None if neither tells."""
    if machine := find_machine(kind):
        return Size(int(machine.vcpus), float(machine.memory), int(machine.gpus))
    found = PLAIN.fullmatch(kind.removeprefix(SAGEMAKER))
    if not found:
        return None
    cpus = 4 * int(found["times"] or 1) if found["extra"] else 2
    each = 2.625 if found["series"].startswith("c5n") else GIB_OF_CPU[found["series"][0]]
    return Size(cpus, cpus * each, 0)


def refuse_more(group: SubmittedGroup, kind: str) -> Iterator[Refusal]:
    """Yield what a group asks for and its machine has not."""
    size = find_size(kind)
    if size is None:
        return
    has = f"at most what {kind} has"
    if float(group.cpus or 0) > size.cpus:
        yield _refuse(group, "cpus", f"{has}, {size.cpus}", group.cpus)
    if count_bytes(group.memory or "0") > size.memory_gib * (1 << 30):
        yield _refuse(group, "memory", f"{has}, {size.memory_gib:g}g", group.memory)
    if group.gpus.isdigit() and int(group.gpus) > size.gpus:
        yield _refuse(group, "gpus", f"{has}, {size.gpus}", group.gpus)


def refuse_share(group: SubmittedGroup, kind: str) -> Iterator[Refusal]:
    """Yield what a group asks for at a place whose hosts get the whole machine: more of it, or other GPUs than it has.

    Fewer CPUs and less memory than a machine has are no fault; fewer GPUs would be more ranks than the job asks for.
    """
    yield from (each for each in refuse_more(group, kind) if each.keys[-1] != "gpus")
    size = find_size(kind)
    count = size.gpus if size else None if ACCELERATED.match(kind.removeprefix(SAGEMAKER)) else 0
    if group.gpus.startswith('"'):
        yield _refuse(group, "gpus", "all, for a host has all of its machine", group.gpus.strip('"'))
    elif count == 0 and group.gpus:
        yield _refuse(group, "gpus", f"none, for {kind} has no GPUs", group.gpus)
    elif count is not None and group.gpus.isdigit() and int(group.gpus) != count:
        yield _refuse(group, "gpus", f"all, or the {count} that {kind} has: a host has all of its machine", group.gpus)


def _refuse(group: SubmittedGroup, key: str, expected: str, found: str) -> Refusal:
    keys = name_group_keys(group.name, key)
    return Refusal(keys, expected, found if keys[0] == "resources" else f"{found} for {group.name}")
