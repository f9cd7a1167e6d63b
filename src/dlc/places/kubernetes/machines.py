"""What a pod of a group asks for: from the job, else from the catalogue of machines. Reads instances.yml alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlc.job.job_spec import Group, JobSpec
from dlc.job.limits import count_bytes
from dlc.places.kubernetes.options import KubernetesOptions
from dlc.places.place import Refusal
from dlc.places.refusals import ALL, SAGEMAKER, find_machine, name_group_keys, refuse_more

if TYPE_CHECKING:
    from dlc.buildspec.instances import Instance

GPU, NEURON, EFA = "nvidia.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"
# Interfaces of a machine with EFA that has more than one
# (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html).
INTERFACES = {"p4d.24xlarge": 4, "p5.48xlarge": 32, "trn1.32xlarge": 8}
# Of a machine: the rest is the node's own, and its daemons'.
SHARE_OF_CPUS, SHARE_OF_MEMORY = 0.9, 0.85

# Kind -> amount: limits, requests.
Amounts = dict[str, str]


def list_types(group: Group) -> list[str]:
    """Return how nodes of the group's instance type may be labelled: HyperPod keeps SageMaker's `ml.`."""
    bare = group.instance_type.removeprefix(SAGEMAKER)
    return [bare, SAGEMAKER + bare] if bare else []


def make_resources(job: JobSpec, group: Group, options: KubernetesOptions) -> dict[str, Amounts]:
    """Return what a pod may use and what it asks for.

    What the job states is both. Without it a pod asks for most of its machine, and may use all that is free.
    """
    machine = find_machine(group.instance_type)
    limits: Amounts = {}
    requests: Amounts = {}
    if group.cpus:
        limits["cpu"] = group.cpus
    elif machine:
        requests["cpu"] = f"{math.floor(int(machine.vcpus) * SHARE_OF_CPUS * 1000)}m"
    if group.memory:
        limits["memory"] = format_quantity(group.memory)
    elif machine:
        requests["memory"] = f"{math.floor(float(machine.memory) * SHARE_OF_MEMORY * 1024)}Mi"
    limits |= _count_devices(job, group, machine, options)
    return {kind: amounts for kind, amounts in (("limits", limits), ("requests", {**requests, **limits})) if amounts}


def format_quantity(size: str) -> str:
    """Return a size of dlc run as Kubernetes writes it, whose m is a thousandth."""
    number = count_bytes(size)
    units = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1, ""))
    unit, suffix = next((unit, suffix) for unit, suffix in units if not number % unit)
    return f"{number // unit}{suffix}"


def _count_devices(job: JobSpec, group: Group, machine: Instance | None, options: KubernetesOptions) -> Amounts:
    """Return accelerators, and EFA if there is another host to talk to."""
    found: Amounts = {}
    on_machine = int(machine.gpus) if machine else 0
    count = on_machine if group.gpus in ("", ALL) else int(group.gpus)
    if count:
        found[NEURON if machine and machine.gpu == "Trainium" else GPU] = str(count)
    if machine and machine.efa == "yes" and options.efa == "yes" and job.host_count > 1:
        found[EFA] = str(INTERFACES.get(group.instance_type.removeprefix(SAGEMAKER), 1))
    return found


def refuse_resources(job: JobSpec) -> Iterator[Refusal]:
    """Yield amounts that no node has, or that Kubernetes cannot be asked for."""
    for group in job.host_groups:
        machine = find_machine(group.instance_type)
        if group.gpus == ALL and not (machine and int(machine.gpus)):
            yield Refusal(
                name_group_keys(group.name, "gpus"), "a number of GPUs, or an instance type that has some", ALL
            )
        elif group.gpus and group.gpus != ALL and not group.gpus.isdigit():
            yield Refusal(
                name_group_keys(group.name, "gpus"),
                "a number of GPUs: the cluster chooses which",
                group.gpus,
            )
        yield from refuse_more(group, group.instance_type)
