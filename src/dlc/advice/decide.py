"""Decides: not CPU-bound, a bigger machine, a heterogeneous cluster, or preprocessing on the accelerator. Pure.

They are ordered from simple to much work. A simpler choice is preferred if it costs at most 5% more than the cheapest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from dlc.advice.cost_model import (
    COMPUTING,
    EVERYWHERE,
    MODELLED,
    PREPROCESSING,
    Catalogue,
    Cluster,
    Estimate,
    Machine,
    Workload,
    estimate_step,
)

SAME, BIGGER, MIXED, ON_GPU = "same machine", "bigger machine", "heterogeneous", "preprocessing on the GPU"
ORDER = (SAME, BIGGER, MIXED, ON_GPU)
COST, SPEED = "cost", "speed"
CLOSE = 1.05
MOST_DATA_HOSTS = 64


@dataclass(frozen=True)
class Choice:
    """One thing that can be done, and what comes of it."""

    kind: str
    result: Estimate


@dataclass(frozen=True)
class Advice:
    """`choices[0]` is the cluster as it is; `chosen` is one of them."""

    job: Workload
    choices: tuple[Choice, ...]
    chosen: Choice
    why: str
    # The chosen (or best) type of data hosts, from none to more than enough.
    curve: tuple[Estimate, ...]
    # Seconds that preprocessing on the GPU may add to a step and still cost less than the rest.
    gpu_limit: float | None
    # The same, and still be faster; None if no accelerator waits for data.
    gpu_faster_limit: float | None

    @property
    def now(self) -> Estimate:
        return self.choices[0].result

    @property
    def is_measured(self) -> bool:
        """Tell whether there is the measured step alone: no machine is known to change what bounds it."""
        return self.now.bound not in MODELLED


def make_advice(
    now: Cluster, job: Workload, machines: Catalogue, data_types: Sequence[Machine], goal: str, gpu_extra: float | None
) -> Advice:
    """Make the advice.

    `data_types` are the machines that data hosts may be; `gpu_extra` is None if nobody measured it.
    """
    same = Choice(SAME, estimate_step(now, job))
    mixed = [Choice(MIXED, found) for found in (find_best_mix(now, job, data, goal) for data in data_types) if found]
    choices = [same, *_list_useful_bigger(now, job, machines, same.result)]
    choices += mixed
    if gpu_extra is not None:
        choices.append(Choice(ON_GPU, estimate_step(now, job, gpu_extra)))
    chosen, why = choose(choices, goal)
    best = _pick_simplest(_pick_fastest(mixed) if goal == SPEED else _pick_cheapest(mixed)) if mixed else None
    shown = chosen if chosen.kind == MIXED else best
    kept = sorted((c for c in choices if c.kind != MIXED or c is shown), key=_sort_key)
    limits = _find_cost_limit(kept, job), _find_speed_limit(kept, job)
    return Advice(job, tuple(kept), chosen, why, _make_curve(now, job, shown), *limits)


def keep_machines(now: Cluster, job: Workload, bound: str, seconds: float, why: str) -> Advice:
    """Return the advice to change no machine: a step was measured to take `seconds`, and vCPUs do not explain them."""
    same = Choice(SAME, Estimate(now, seconds, bound, min(job.step / seconds, 1.0)))
    return Advice(job, (same,), same, why, (), None, None)


def _list_useful_bigger(now: Cluster, job: Workload, machines: Catalogue, same: Estimate) -> list[Choice]:
    """List bigger machines up to the first that ends the wait for data; none if there is no wait."""
    found: list[Choice] = []
    for machine in list_bigger(now.training, machines):
        if (found[-1].result if found else same).bound != PREPROCESSING:
            break
        found.append(Choice(BIGGER, estimate_step(Cluster(machine, now.hosts), job)))
    return found


def list_bigger(machine: Machine, machines: Catalogue) -> list[Machine]:
    """List machines of the family with the same accelerators and more vCPUs for each, smallest first."""
    found = [
        other for other in machines.values()
        if other.family == machine.family and (other.gpus, other.gpu) == (machine.gpus, machine.gpu)
        and other.vcpus > machine.vcpus
    ]  # fmt: skip
    return sorted(found, key=lambda other: other.vcpus)


def find_best_mix(now: Cluster, job: Workload, data: Machine, goal: str) -> Estimate | None:
    """Find the number of data hosts of one type that suits the goal; None if data hosts help nothing."""
    found = [
        estimate_step(Cluster(now.training, now.hosts, data, count), job)
        for count in range(1, _count_enough(now, job, data) + 1)
    ]
    helping = [each for each in found if each.seconds < estimate_step(now, job).seconds]
    if not helping:
        return None
    fewest = next(each for each in helping if each.seconds <= min(e.seconds for e in helping) * (1 + 1e-9))
    if goal == SPEED or fewest.cost is None:
        return fewest
    return min(helping, key=lambda each: (each.cost or 0, each.cluster.data_hosts))


def _count_enough(now: Cluster, job: Workload, data: Machine) -> int:
    """Count the data hosts after which one more changes nothing."""
    return min(max(ceil(now.hosts * compute_need(now.training, data, job) - 1e-9), 1), MOST_DATA_HOSTS)


def compute_need(training: Machine, data: Machine, job: Workload) -> float:
    """Return how many data hosts each training host needs to never wait for data; negative if it prepares enough."""
    each = min(job.data_workers or data.vcpus, data.vcpus) / job.cpu_elsewhere
    own = training.vcpus / job.cpu if job.where == EVERYWHERE else 0.0
    return (max(training.gpus, 1) / job.step - own) / each


def choose(choices: Sequence[Choice], goal: str) -> tuple[Choice, str]:
    """Return the choice and the reason, in words. The first choice is the cluster as it is."""
    same = choices[0]
    fastest = _pick_fastest(choices)
    if same.result.bound == COMPUTING:
        return same, "not CPU-bound: training never waits for data"
    if same in fastest:
        return same, f"no choice here is more than {CLOSE - 1:.0%} faster"
    if goal == SPEED:
        return _pick_simplest(fastest), "it is the fastest"
    enough = [c for c in choices if c.kind == BIGGER and c.result.bound == COMPUTING and c.result.cost is None]
    if same.result.cost is None or enough:
        return _pick_simplest(
            enough or fastest
        ), "it is the simplest that ends the wait for data; for want of prices, costs were not compared"
    chosen = _pick_simplest(_pick_cheapest(choices))
    return chosen, "no choice costs less for each step" if chosen is same else "it costs least for each step"


def _pick_fastest(choices: Sequence[Choice]) -> list[Choice]:
    least = min(choice.result.seconds for choice in choices)
    return [choice for choice in choices if choice.result.seconds <= least * CLOSE]


def _pick_cheapest(choices: Sequence[Choice]) -> list[Choice]:
    """Pick from those with a known price; the fastest if no price is known."""
    costs = {index: choice.result.cost for index, choice in enumerate(choices) if choice.result.cost is not None}
    least = min(costs.values(), default=0.0)
    return [choices[index] for index, cost in costs.items() if cost <= least * CLOSE] or _pick_fastest(choices)


def _pick_simplest(choices: Sequence[Choice]) -> Choice:
    return min(choices, key=lambda choice: (*_sort_key(choice), choice.result.cost or choice.result.seconds))


def _sort_key(choice: Choice) -> tuple[int, int, int]:
    return ORDER.index(choice.kind), choice.result.cluster.data_hosts, choice.result.cluster.training.vcpus


def _make_curve(now: Cluster, job: Workload, mixed: Choice | None) -> tuple[Estimate, ...]:
    if mixed is None or mixed.result.cluster.data is None:
        return ()
    data = mixed.result.cluster.data
    counts = range(1, _count_enough(now, job, data) + 2)
    return (
        estimate_step(now, job),
        *(estimate_step(Cluster(now.training, now.hosts, data, count), job) for count in counts),
    )


def _find_cost_limit(choices: Sequence[Choice], job: Workload) -> float | None:
    """Return the seconds that the GPU may add to a step and still cost no more than the cheapest other choice."""
    same = choices[0].result
    costs = [choice.result.cost for choice in choices if choice.kind != ON_GPU and choice.result.cost is not None]
    if not costs or not same.cluster.price or not _can_prepare(same):
        return None
    return max(min(costs) / 1000 * 3600 / same.cluster.price - job.step, 0.0)


def _find_speed_limit(choices: Sequence[Choice], job: Workload) -> float | None:
    """Return the seconds that the GPU may add to a step and still be as fast as the fastest other choice."""
    if not _can_prepare(choices[0].result):
        return None
    return max(min(choice.result.seconds for choice in choices if choice.kind != ON_GPU) - job.step, 0.0)


def _can_prepare(same: Estimate) -> bool:
    """Tell whether there is an accelerator that waits for data: it could prepare its data itself."""
    return bool(same.cluster.training.gpus) and same.bound != COMPUTING
