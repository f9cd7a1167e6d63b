"""What several places refuse alike, also by what machines of the catalogue have. Reads instances.yml alone.

May import core, buildspec, job, places.place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dlc.core.checkout import read_workspace
from dlc.core.image_references import split_registry
from dlc.job.job_spec import GRACE, HOST_VARIABLE, ONLY_GROUP, SHARED_MEMORY, Group, JobSpec
from dlc.job.limits import count_bytes
from dlc.places.place import Refusal

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
IMAGE_HINT = "dlc push it and name it with --image"


def refuse_images(images: Iterable[tuple[tuple[str, ...], str]], hint: str = "") -> Iterator[Refusal]:
    """Yield images without their registry: hosts would ask Docker Hub, where the name is somebody else's.

    `hint` says how else the place may be given an image.
    """
    words = f"{IMAGE_HINT}; {hint}" if hint else IMAGE_HINT
    for keys, image in images:
        if not split_registry(image)[0]:
            yield Refusal(keys, "an image with its registry, such as REGISTRY/NAME:TAG", image, words)


def refuse_group_images(job: JobSpec) -> Iterator[Refusal]:
    """Yield images of groups, at a place whose hosts all have one image."""
    for keys, image in job.list_images():
        if image != job.image:
            yield Refusal(keys, "one image for all groups", image, "leave it out")


def refuse_variables(job: JobSpec, who: str) -> Iterator[Refusal]:
    """Yield variables that contradict what the place says of the hosts, or the job itself of its grace."""
    for name in (*job.variables, *job.secrets):
        if HOST_VARIABLE.fullmatch(name):
            yield Refusal(("environment", name), f"hosts that {who} names", name, "leave it out")
    if (stated := job.variables.get(GRACE, str(job.grace))) != str(job.grace):
        yield Refusal(("environment", GRACE), f"the job's grace, {job.grace}", stated, "say it with grace")


def refuse_shared_memory(job: JobSpec, who: str) -> Iterator[Refusal]:
    """Yield shared memory that the job states, at a place that sets it itself."""
    if "shared_memory" in job.model_fields_set or job.shared_memory not in ("", SHARED_MEMORY):
        yield Refusal(
            ("shared_memory",), f"none: {who} sets it by the machine", repr(job.shared_memory), "leave it out"
        )


def name_group_keys(group: str, key: str) -> tuple[str, ...]:
    """Return where a group's value stands in the file; of the only group, which has no name, it is the job's."""
    if group == ONLY_GROUP:
        return ("hosts",) if key == "hosts" else ("resources", key)
    return ("groups", group, key)


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


def refuse_more(group: Group, kind: str) -> Iterator[Refusal]:
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


def refuse_share(group: Group, kind: str) -> Iterator[Refusal]:
    """Yield what a group asks for at a place whose hosts get the whole machine: more of it, or other GPUs than it has.

    Fewer CPUs and less memory than a machine has are no fault; fewer GPUs would be more ranks than the job asks for.
    """
    yield from (each for each in refuse_more(group, kind) if each.keys[-1] != "gpus")
    size = find_size(kind)
    count = size.gpus if size else None if ACCELERATED.match(kind.removeprefix(SAGEMAKER)) else 0
    if group.gpus.startswith("device="):
        yield _refuse(group, "gpus", "all, for a host has all of its machine", group.gpus)
    elif count == 0 and group.gpus:
        yield _refuse(group, "gpus", f"none, for {kind} has no GPUs", group.gpus)
    elif count is not None and group.gpus.isdigit() and int(group.gpus) != count:
        yield _refuse(group, "gpus", f"all, or the {count} that {kind} has: a host has all of its machine", group.gpus)


def _refuse(group: Group, key: str, expected: str, found: str) -> Refusal:
    keys = name_group_keys(group.name, key)
    return Refusal(keys, expected, found if keys[0] == "resources" else f"{found} for {group.name}")
