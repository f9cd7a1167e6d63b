"""Advice as text: what was decided, a table of the choices, a table of measured clusters, a chart of bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlc.core.text import table
from dlc.jobs.advice.decide import ON_GPU, SAME, Advice, Choice
from dlc.jobs.advice.speed import COMPUTING, Estimate, cheaper, faster, pays_below, pays_from

UNKNOWN = "unknown"
BAR = 40  # characters
BESIDE_BAR = 14  # spaces and the figure
HEADS = ("choice", "cluster", "vCPU:GPU", "step ms", "steps/s", "GPU use", "bound by", "USD/h", "USD/1000 steps",
         "faster", "cheaper", "pays below ms", "pays from CPU s")  # fmt: skip
WITHOUT_GPU = {"vCPU:GPU": "vCPU:host", "GPU use": "trains"}
MEASURED_HEADS = (
    "cluster",
    "vCPU:GPU",
    "step ms",
    "steps/s",
    "USD/h",
    "USD/1000 steps",
    "faster",
    "cheaper",
    "pays below ms",
)


def verdict(advice: Advice) -> str:
    """What it is and what to do, in two or three lines."""
    job, now, chosen = advice.job, advice.now, advice.chosen
    each, works = ("accelerator", "its accelerators work") if now.cluster.training.gpus else ("host", "it trains")
    need = f"preprocessing needs {_short(job.vcpus_per_gpu)} vCPUs for each {each}, {now.cluster} has"
    has = f"{_short(now.cluster.vcpus_per_gpu)}"
    state = "not CPU-bound" if now.bound == COMPUTING else "CPU-bound"
    lines = [f"{state}: {need} {has}; {works} {share(now.use)} of the time"]
    what = chosen.kind if chosen.kind in (SAME, ON_GPU) else f"{chosen.kind}: {chosen.result.cluster}"
    lines.append(f"advice: {what} ({advice.why})")
    if chosen.kind != SAME:
        lines.append(f"  {_gain(now, chosen.result)}")
    if not any(choice.kind == ON_GPU for choice in advice.choices):
        lines += _on_gpu(advice)
    return "\n".join(lines)


def _on_gpu(advice: Advice) -> list[str]:
    """When preprocessing on the GPU would pay, where nobody has measured it."""
    by_cost = advice.gpu_limit is not None
    limit = advice.gpu_limit if by_cost else advice.gpu_faster_limit
    if limit is None:
        return []
    wins = "costs least" if by_cost else "is faster than each of these, on the machines that you have,"
    return [
        f"preprocessing on the GPU (DALI) {wins} if it adds less than {ms(limit)} ms to a step;"
        " measure that, and give it as --gpu-preprocess-ms"
    ]


def assumptions(advice: Advice) -> str:
    """What the figures take for granted, and how to give what was measured instead."""
    job, clusters = advice.job, [choice.result.cluster for choice in advice.choices]
    lines = ["the figures assume", "  preprocessing runs on all vCPUs at once: twice the vCPUs take half the time"]
    if not advice.now.cluster.training.gpus:
        lines.append("  training leaves the vCPUs to preprocessing, which it does not where it computes on them too")
    elif len({cluster.training.name for cluster in clusters}) > 1:
        lines.append("  a step with the data ready takes the same time on a bigger machine of the family")
    data = sorted({cluster.data.name for cluster in clusters if cluster.data})
    if data and job.cpu_elsewhere == job.cpu:
        lines.append(f"  a vCPU of {', '.join(data)} is as fast as the training host's (--data-cpu-seconds: measured)")
    if data and not job.batch_bytes:
        lines.append("  sending batches takes no time (--batch-mb: the size of a batch)")
    return "\n".join(lines)


def _gain(before: Estimate, after: Estimate) -> str:
    saved = cheaper(before, after)
    if saved is None:
        return f"{faster(before, after):.1f}x faster; cost unknown"
    return (
        f"{faster(before, after):.1f}x faster, {abs(saved):.0%} {'cheaper' if saved >= 0 else 'dearer'} for each step"
    )


def choices_table(advice: Advice, columns: int | None = None) -> str:
    """A row for each choice, in lines of so many characters."""
    heads = HEADS if advice.now.cluster.training.gpus else tuple(WITHOUT_GPU.get(head, head) for head in HEADS)
    return table(heads, [_row(advice, choice) for choice in advice.choices], columns)


def _row(advice: Advice, choice: Choice) -> tuple[str, ...]:
    now, found = advice.now, choice.result
    first = choice.kind == SAME
    mark = "> " if choice is advice.chosen else "  "
    return (
        mark + choice.kind, str(found.cluster), _short(found.cluster.vcpus_per_gpu) + ":1", ms(found.seconds),
        f"{found.steps_per_second:.2f}", share(found.use), found.bound, dollars(found.cluster.price), cost(found),
        *(("", "", "", "") if first else (*_against(now, found), _pays_from(advice, choice))),
    )  # fmt: skip


def _pays_from(advice: Advice, choice: Choice) -> str:
    before, after = advice.now.cluster, choice.result.cluster
    if choice.kind == ON_GPU:
        return ""
    if before.price is None or after.price is None:
        return UNKNOWN
    seconds = pays_from(before, after, advice.job)
    return "never" if seconds is None else f"{seconds:.2f}"


def measured_table(rows: Sequence[Estimate], columns: int | None = None) -> str:
    """Measured clusters against the first of them, in lines of so many characters."""
    return table(MEASURED_HEADS, [_measured(rows[0], row) for row in rows], columns)


def _measured(first: Estimate, row: Estimate) -> tuple[str, ...]:
    against = ("", "", "") if row is first else _against(first, row)
    vcpus = _short(row.cluster.vcpus_per_gpu) + ":1"
    return (
        str(row.cluster),
        vcpus,
        ms(row.seconds),
        f"{row.steps_per_second:.2f}",
        dollars(row.cluster.price),
        cost(row),
        *against,
    )


def _against(before: Estimate, after: Estimate) -> tuple[str, str, str]:
    saved, limit = cheaper(before, after), pays_below(before, after)
    return (
        f"{faster(before, after):.1f}x",
        UNKNOWN if saved is None else f"{saved:.0%}",
        UNKNOWN if limit is None else ms(limit),
    )


def chart(rows: Sequence[Estimate], columns: int | None = None) -> str:
    """Bars of what 1000 steps cost, or of the step's time where a price is unknown; shorter ones in narrow lines."""
    priced = all(row.cost is not None for row in rows)
    values = [row.cost if priced and row.cost is not None else row.seconds * 1000 for row in rows]
    names = [name(row) for row in rows]
    width = max(len(title) for title in names)
    longest = BAR if columns is None else max(min(BAR, columns - width - BESIDE_BAR), 1)
    lines = ["USD for 1000 steps" if priced else "milliseconds for a step (not all prices are known)"]
    for title, value, row in zip(names, values, rows, strict=True):
        bar = "#" * max(round(longest * value / max(values)), 1)
        lines.append(f"  {title:<{width}}  {bar:<{longest}}  {cost(row) if priced else ms(row.seconds)}")
    return "\n".join(lines)


def name(row: Estimate) -> str:
    """The cluster, and what else is different."""
    return f"{row.cluster}{' (on the GPU)' if row.extra else ''}"


def ms(seconds: float) -> str:
    """Milliseconds, whole ones where they are many."""
    value = seconds * 1000
    return f"{value:.0f}" if value >= 20 else f"{value:.2f}"


def share(value: float | None) -> str:
    """Per cent."""
    return UNKNOWN if value is None else f"{value:.0%}"


def dollars(price: float | None) -> str:
    """For an hour."""
    return UNKNOWN if price is None else f"{price:.3f}"


def cost(row: Estimate) -> str:
    """For 1000 steps."""
    return UNKNOWN if row.cost is None else f"{row.cost:.3f}"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
