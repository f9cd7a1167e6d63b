"""Advice as text, as JSON, and as one SVG file that needs nothing else and fits a telephone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape

from dlc.advice.cost_model import (
    COMPUTING,
    NETWORK,
    PREPROCESSING,
    Cluster,
    Estimate,
    Machine,
    compute_saving,
    compute_speedup,
    find_cpu_limit,
    find_step_limit,
)
from dlc.advice.decide import ON_GPU, SAME, Advice, Choice
from dlc.advice.profile_report import Profile
from dlc.advice.profile_text import describe_sureness
from dlc.advice.verdict import find_kind
from dlc.core.text import format_table
from dlc_runtime.compiler.report.page_style import COLORS

Json = dict[str, object]
UNKNOWN = "unknown"
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
# Units; a browser scales it, and its letters stay readable on 360 pixels.
WIDTH = 480
ROW, HEAD, EDGE = 40, 40, 12
# Two pixels for a unit at most, in the middle of a window.
PLACE = f"display:block;margin:auto;max-width:{2 * WIDTH}px"
STYLE = (
    f"{COLORS}:root{{background:var(--page)}}text{{font:14px sans-serif;fill:var(--text)}}"
    ".title{font-weight:bold}.end{text-anchor:end}.page{fill:var(--page)}.blue{fill:var(--blue)}.orange{fill:var(--orange)}"
)


def advice_json(profile: Profile | None, advice: Advice | None, measured: Sequence[Estimate]) -> Json:
    """Return the advice for programs: null for what is unknown; seconds and US dollars, not rounded."""
    value: Json = {"measured": [_against_json(measured[0], row) for row in measured]}
    if profile:
        value["profile"] = profile_json(profile)
    if advice:
        job = {**asdict(advice.job), "vcpus_per_gpu": advice.job.vcpus_per_gpu}
        value["job"] = job
        value["choices"] = [_choice_json(advice, choice) for choice in advice.choices]
        value["chosen"] = advice.choices.index(advice.chosen)
        value["why"] = advice.why
        value["gpu_preprocessing_pays_below_seconds"] = advice.gpu_limit
        value["gpu_preprocessing_faster_below_seconds"] = advice.gpu_faster_limit
        value["data_hosts"] = [_row_json(row) for row in advice.curve]
    return value


def profile_json(profile: Profile) -> Json:
    """Return what was measured, and which kind it is."""
    return {
        "kind": profile.kind, "framework": profile.framework, "step_seconds": profile.step, "waiting": profile.waiting,
        "cpu_seconds": profile.cpu, "batch_bytes": profile.batch_bytes, "busy": profile.busy,
        "worker_use": profile.worker_use, "workers_needed": profile.workers_needed, "gpu_use": profile.gpu_use,
        "queued": profile.queued, "others": profile.taken, "sureness": describe_sureness(profile),
        "interval_seconds": profile.interval, "ranks_differ": profile.differ,
        "ranks": [{**asdict(rank), "wait": rank.wait, "kind": find_kind(rank)} for rank in profile.ranks],
    }  # fmt: skip


def _choice_json(advice: Advice, choice: Choice) -> Json:
    same = choice.kind == SAME
    pays = (
        None if same or choice.result.extra else find_cpu_limit(advice.now.cluster, choice.result.cluster, advice.job)
    )
    return {"kind": choice.kind, **_against_json(advice.now, choice.result), "pays_from_cpu_seconds": pays}


def _against_json(first: Estimate, row: Estimate) -> Json:
    """Compare with `first`, which itself is 1 time as fast and 0 cheaper."""
    compared = {
        "faster": compute_speedup(first, row),
        "cheaper": compute_saving(first, row),
        "pays_below_seconds": find_step_limit(first, row),
    }
    return {**_row_json(row), **compared}


def _row_json(row: Estimate) -> Json:
    return {
        "cluster": _cluster_json(row.cluster), "step_seconds": row.seconds, "steps_per_second": row.steps_per_second,
        "bound": row.bound, "gpu_use": row.use, "usd_per_hour": row.cluster.price, "usd_per_1000_steps": row.cost,
    }  # fmt: skip


def _cluster_json(cluster: Cluster) -> Json:
    data = cluster.data.name if cluster.data else None
    return {"training": cluster.training.name, "hosts": cluster.hosts, "data": data, "data_hosts": cluster.data_hosts,
            "gpus": cluster.gpus, "vcpus_per_gpu": cluster.vcpus_per_gpu}  # fmt: skip


def list_prices(rows: Sequence[Estimate]) -> str:
    """Write a line for each machine: its price and who says so."""
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


def write_verdict(advice: Advice) -> str:
    """Write the verdict and its remedy, in two or three lines."""
    job, now, chosen = advice.job, advice.now, advice.chosen
    each, works = ("accelerator", "its accelerators work") if now.cluster.training.gpus else ("host", "it trains")
    need = f"preprocessing needs {_format_short(job.vcpus_per_gpu)} vCPUs for each {each}, {now.cluster} has"
    has = f"{_format_short(now.cluster.vcpus_per_gpu)}"
    state = {COMPUTING: "not CPU-bound", **dict.fromkeys((PREPROCESSING, NETWORK), "CPU-bound")}.get(now.bound)
    state = state or f"bound by {now.bound}"
    lines = [f"{state}: {need} {has}; {works} {format_share(now.use)} of the time"]
    what = chosen.kind if chosen.kind in (SAME, ON_GPU) else f"{chosen.kind}: {chosen.result.cluster}"
    lines.append(f"advice: {what} ({advice.why})")
    if advice.is_measured:
        lines.append("no other machines are compared: nothing that was measured says what a step would take there")
    if chosen.kind != SAME:
        lines.append(f"  {_describe_gain(now, chosen.result)}")
    if not any(choice.kind == ON_GPU for choice in advice.choices):
        lines += _advise_on_gpu(advice)
    return "\n".join(lines)


def _advise_on_gpu(advice: Advice) -> list[str]:
    """Tell when preprocessing on the GPU would pay, if nobody has measured it."""
    by_cost = advice.gpu_limit is not None
    limit = advice.gpu_limit if by_cost else advice.gpu_faster_limit
    if limit is None:
        return []
    wins = "costs least" if by_cost else "is faster than each of these, on the machines that you have,"
    return [
        f"preprocessing on the GPU (DALI) {wins} if it adds less than {format_ms(limit)} ms to a step;"
        " measure that, and give it as --gpu-preprocess-ms"
    ]


def list_assumptions(advice: Advice) -> str:
    """Write what the figures take for granted, and how to give what was measured instead."""
    job, clusters = advice.job, [choice.result.cluster for choice in advice.choices]
    if advice.is_measured:
        return "the figures assume\n  the report is from this machine: the step is as it was measured, with its waits"
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


def _describe_gain(before: Estimate, after: Estimate) -> str:
    saved = compute_saving(before, after)
    if saved is None:
        return f"{compute_speedup(before, after):.1f}x faster; cost unknown"
    compared = f"{abs(saved):.0%} {'cheaper' if saved >= 0 else 'dearer'}"
    return f"{compute_speedup(before, after):.1f}x faster, {compared} for each step"


def make_choices_table(advice: Advice, columns: int | None = None) -> str:
    """Make a row for each choice, in lines of so many characters."""
    heads = HEADS if advice.now.cluster.training.gpus else tuple(WITHOUT_GPU.get(head, head) for head in HEADS)
    return format_table(heads, [_choice_row(advice, choice) for choice in advice.choices], columns)


def _choice_row(advice: Advice, choice: Choice) -> tuple[str, ...]:
    now, found = advice.now, choice.result
    first = choice.kind == SAME
    mark = "> " if choice is advice.chosen else "  "
    return (
        mark + choice.kind, str(found.cluster), _format_short(found.cluster.vcpus_per_gpu) + ":1",
        format_ms(found.seconds),
        f"{found.steps_per_second:.2f}", format_share(found.use), found.bound,
        format_dollars(found.cluster.price), format_cost(found),
        *(("", "", "", "") if first else (*_compare_cells(now, found), _format_cpu_limit(advice, choice))),
    )  # fmt: skip


def _format_cpu_limit(advice: Advice, choice: Choice) -> str:
    before, after = advice.now.cluster, choice.result.cluster
    if choice.kind == ON_GPU:
        return ""
    if before.price is None or after.price is None:
        return UNKNOWN
    seconds = find_cpu_limit(before, after, advice.job)
    return "never" if seconds is None else f"{seconds:.2f}"


def make_measured_table(rows: Sequence[Estimate], columns: int | None = None) -> str:
    """Compare measured clusters with the first of them, in lines of so many characters."""
    return format_table(MEASURED_HEADS, [_measured_row(rows[0], row) for row in rows], columns)


def _measured_row(first: Estimate, row: Estimate) -> tuple[str, ...]:
    against = ("", "", "") if row is first else _compare_cells(first, row)
    vcpus = _format_short(row.cluster.vcpus_per_gpu) + ":1"
    return (
        str(row.cluster),
        vcpus,
        format_ms(row.seconds),
        f"{row.steps_per_second:.2f}",
        format_dollars(row.cluster.price),
        format_cost(row),
        *against,
    )


def _compare_cells(before: Estimate, after: Estimate) -> tuple[str, str, str]:
    saved, limit = compute_saving(before, after), find_step_limit(before, after)
    return (
        f"{compute_speedup(before, after):.1f}x",
        UNKNOWN if saved is None else f"{saved:.0%}",
        UNKNOWN if limit is None else format_ms(limit),
    )


def name_row(row: Estimate) -> str:
    """Return the cluster, and what else is different."""
    return f"{row.cluster}{' (on the GPU)' if row.extra else ''}"


def format_ms(seconds: float) -> str:
    """Format milliseconds, whole ones if they are many."""
    value = seconds * 1000
    return f"{value:.0f}" if value >= 20 else f"{value:.2f}"


def format_share(value: float | None) -> str:
    """Format a share in per cent."""
    return UNKNOWN if value is None else f"{value:.0%}"


def format_dollars(price: float | None) -> str:
    """Format the price of an hour."""
    return UNKNOWN if price is None else f"{price:.3f}"


def format_cost(row: Estimate) -> str:
    """Format the cost of 1000 steps."""
    return UNKNOWN if row.cost is None else f"{row.cost:.3f}"


def _format_short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def draw_svg(rows: Sequence[Estimate]) -> str:
    """Draw bars of seconds and of dollars, one for each row; each of the two charts has one unit."""
    seconds = [(name_row(r), r.seconds * 1000, f"{format_ms(r.seconds)} ms each") for r in rows]
    parts, top = _draw_bars("Seconds for 1000 steps", seconds, "blue", 0)
    costs = [(name_row(r), r.cost or 0.0, format_cost(r) if r.cost is None else f"{format_cost(r)} USD") for r in rows]
    more, top = _draw_bars("USD for 1000 steps", costs, "orange", top)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" style="{PLACE}">'
    about = "<title>What a step takes and costs on each of these machines</title>"
    ground = '<rect width="100%" height="100%" class="page"/>'
    return "\n".join([head, about, f"<style>{STYLE}</style>", ground, *parts, *more, "</svg>", ""])


def _draw_bars(title: str, rows: Sequence[tuple[str, float, str]], color: str, top: int) -> tuple[list[str], int]:
    """Draw each bar below its name and its figure. Returns the parts, and where they end."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    parts = [_draw_text(EDGE, top + 24, title, "title")]
    for index, (whose, value, label) in enumerate(rows):
        y = top + HEAD + index * ROW
        length = (WIDTH - 2 * EDGE) * value / most
        parts += [_draw_text(EDGE, y + 14, whose, "name"), _draw_text(WIDTH - EDGE, y + 14, label, "end")]
        parts.append(f'<rect class="{color}" x="{EDGE}" y="{y + 20}" width="{length:.1f}" height="12"/>')
    return parts, top + HEAD + len(rows) * ROW + 10


def _draw_text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'
