"""Advice for programs, and where the prices in it come from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from dlc.jobs.advice.decide import SAME, Advice, Choice
from dlc.jobs.advice.machines import Cluster, Machine
from dlc.jobs.advice.profiles import Profile, sureness
from dlc.jobs.advice.speed import Estimate, cheaper, faster, pays_below, pays_from

Json = dict[str, object]


def as_json(profile: Profile | None, advice: Advice | None, measured: Sequence[Estimate]) -> Json:
    """null for what is unknown; seconds and US dollars, not rounded."""
    value: Json = {"measured": [_against(measured[0], row) for row in measured]}
    if profile:
        value["profile"] = profile_json(profile)
    if advice:
        job = {**asdict(advice.job), "vcpus_per_gpu": advice.job.vcpus_per_gpu}
        value["job"] = job
        value["choices"] = [_choice(advice, choice) for choice in advice.choices]
        value["chosen"] = advice.choices.index(advice.chosen)
        value["why"] = advice.why
        value["gpu_preprocessing_pays_below_seconds"] = advice.gpu_limit
        value["gpu_preprocessing_faster_below_seconds"] = advice.gpu_faster_limit
        value["data_hosts"] = [_row(row) for row in advice.curve]
    return value


def profile_json(profile: Profile) -> Json:
    """What was measured, and which it is."""
    return {
        "kind": profile.kind, "framework": profile.framework, "step_seconds": profile.step, "waiting": profile.waiting,
        "cpu_seconds": profile.cpu, "batch_bytes": profile.batch_bytes, "busy": profile.busy,
        "worker_use": profile.worker_use, "workers_needed": profile.workers_needed, "gpu_use": profile.gpu_use,
        "queued": profile.queued, "others": profile.taken, "sureness": sureness(profile),
        "ranks": [asdict(rank) for rank in profile.ranks],
    }  # fmt: skip


def _choice(advice: Advice, choice: Choice) -> Json:
    same = choice.kind == SAME
    pays = None if same or choice.result.extra else pays_from(advice.now.cluster, choice.result.cluster, advice.job)
    return {"kind": choice.kind, **_against(advice.now, choice.result), "pays_from_cpu_seconds": pays}


def _against(first: Estimate, row: Estimate) -> Json:
    """`first` itself is 1 time as fast and 0 cheaper."""
    compared = {
        "faster": faster(first, row),
        "cheaper": cheaper(first, row),
        "pays_below_seconds": pays_below(first, row),
    }
    return {**_row(row), **compared}


def _row(row: Estimate) -> Json:
    return {
        "cluster": _cluster(row.cluster), "step_seconds": row.seconds, "steps_per_second": row.steps_per_second,
        "bound": row.bound, "gpu_use": row.use, "usd_per_hour": row.cluster.price, "usd_per_1000_steps": row.cost,
    }  # fmt: skip


def _cluster(cluster: Cluster) -> Json:
    data = cluster.data.name if cluster.data else None
    return {"training": cluster.training.name, "hosts": cluster.hosts, "data": data, "data_hosts": cluster.data_hosts,
            "gpus": cluster.gpus, "vcpus_per_gpu": cluster.vcpus_per_gpu}  # fmt: skip


def origins(rows: Sequence[Estimate]) -> str:
    """A line for each machine: its price and who says so."""
    machines: dict[str, Machine] = {}
    for row in rows:
        machines.update({m.name: m for m in (row.cluster.training, row.cluster.data) if m})
    width = max(len(name) for name in machines)
    lines = ["prices for an hour in USD"]
    for name, machine in machines.items():
        known = (
            f"{machine.price:.3f} ({machine.price_from})"
            if machine.price is not None
            else "unknown: give it with --price"
        )
        lines.append(f"  {name:<{width}}  {known}")
    return "\n".join(lines)
