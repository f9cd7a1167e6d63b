"""What benchmarks/compiler.py makes of its measurements: a figure for each model, means, tables, a picture. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from statistics import geometric_mean, median
from typing import Any

from compiling import losses

WARM_GOALS = {"pytorch": 20.0, "tensorflow": 30.0}  # percent of the cold compilation; of TensorFlow for each model
GPU_GOAL = 1.6  # times eager, geometric mean
LEAST_ON_GPU, LEAST_ON_CPU = 1.0, 0.97  # times eager, of each model
ENOUGH_RUNS = 3  # to say of one model that it wins or loses
EAGER, ROUNDED, COLD, WARM = KINDS = ("eager", "rounded", "cold", "warm")  # of trainings
SKIPPED = 3  # steps of an eager training: the first ones warm the allocator and trace


@dataclass(frozen=True)
class Case:
    """One training that is compared with itself, compiled."""

    framework: str  # pytorch or tensorflow
    backend: str  # what compiles it
    model: str
    device: str = "cpu"
    dtype: str = "fp32"

    @property
    def name(self) -> str:
        return " ".join((self.framework, self.backend, self.model, *([self.dtype] if self.device != "cpu" else [])))


@dataclass(frozen=True)
class Training:
    """One process: by its own clock, and by the report of dlc_runtime where it was compiled."""

    seconds: list[float]  # of each step
    peak_bytes: int = 0
    batch: int = 0
    framework: str = ""
    device: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)  # of each step

    @property
    def settled(self) -> list[float]:
        """Steps after the way was chosen and everything compiled; of an eager training, after the first ones."""
        if not self.report:
            return self.seconds[SKIPPED:]
        return self.seconds[self.settled_at :] if self.settled_at else []

    @property
    def settled_at(self) -> int:
        """Steps until the way was chosen and everything compiled; 0 if that never was."""
        steps = self.report["steps"]
        first = steps["first_compiled_step"]
        compiled = int(first - 1 + steps["warm_up"]["steps"]) if first else 0
        choosing = self.report.get("choosing")
        if not choosing:
            return compiled
        return max(int(choosing["from_step"]) - 1, compiled) if choosing["from_step"] else 0

    @property
    def way(self) -> str:
        """What the runtime chose; nothing if it was not asked to choose."""
        return str((self.report.get("choosing") or {}).get("way", ""))


@dataclass
class Measured:
    """The trainings of one case: with an empty cache once, the others repeated; `failed` says what went wrong."""

    case: Case
    eager: list[Training] = field(default_factory=list)
    cold: list[Training] = field(default_factory=list)
    warm: list[Training] = field(default_factory=list)
    failed: str = ""
    rounded: list[Training] = field(default_factory=list)  # eager, its first weights off by rounding; once

    def of(self, kind: str) -> list[Training]:
        """Those of one kind."""
        return {EAGER: self.eager, ROUNDED: self.rounded, COLD: self.cold, WARM: self.warm}[kind]


@dataclass(frozen=True)
class Figure:
    """Of one case: medians over the repetitions, in milliseconds and seconds."""

    case: Case
    way: str  # that the runtime chose
    eager_ms: float
    compiled_ms: float
    slowest: float  # speed-up of the repetitions
    fastest: float
    reported: float | None  # speed-up that dlc_runtime's report tells
    cold_seconds: float  # of compiling
    warm_seconds: float | None
    break_even: int | None  # the step, with an empty cache
    break_even_warm: int | None
    peak_ratio: float | None  # compiled over eager memory
    loss_difference: losses.Difference | None  # of the compiled training that differs most
    runs: int

    @property
    def ratio(self) -> float:
        """Speed-up."""
        return self.eager_ms / self.compiled_ms

    @property
    def warm_percent(self) -> float | None:
        return None if self.warm_seconds is None else 100 * self.warm_seconds / max(self.cold_seconds, 1e-9)


def figure(measured: Measured) -> Figure:
    """Return the medians; `measured` has no failure. Raises ValueError if nothing was compiled, or for a NaN loss."""
    short = [len(run.seconds) for run in measured.eager if not run.settled]
    if short:
        raise ValueError(f"{measured.case.name}: only {short[0]} eager steps: the host is too busy, measure again")
    eager = median(median(run.settled) for run in measured.eager)
    compiled = [run for run in beside_eager(measured) if run.settled]
    if not compiled:
        raise ValueError(f"{measured.case.name}: {why_unsettled(measured)}")
    warm = [run.report["compile_seconds"] for run in measured.warm]
    step = median(median(run.settled) for run in compiled)
    peaks = [run.peak_bytes for run in measured.eager]
    return Figure(
        measured.case,
        " or ".join(dict.fromkeys(run.way for run in compiled)) or measured.case.backend,
        eager * 1000,
        step * 1000,
        *speed_ups(measured),
        median_of([run.report["steps"]["speed_up"] for run in compiled]),
        median(run.report["compile_seconds"] for run in measured.cold),
        median(warm) if warm else None,
        break_even(measured.cold, eager, step),
        break_even(measured.warm, eager, step),
        median(run.peak_bytes for run in compiled) / median(peaks) if all(peaks) else None,
        loss_difference(measured),
        len(measured.eager),
    )


def speed_ups(measured: Measured) -> tuple[float, float]:
    """The smallest and the largest, each of two trainings that took turns: a host is not as fast at any time."""
    pairs = zip(measured.eager, beside_eager(measured), strict=False)
    ratios = [median(eager.settled) / median(run.settled) for eager, run in pairs if run.settled]
    return min(ratios), max(ratios)


def beside_eager(measured: Measured) -> list[Training]:
    """Those that took turns with the eager ones: the ones with a cache, if there are any."""
    return measured.warm or measured.cold


def loss_difference(measured: Measured) -> losses.Difference | None:
    """Return how far a compiled training is from the first eager one: a wrong one if there is one, else the largest."""
    rounded = measured.rounded[0].losses if measured.rounded else []
    compiled = (*measured.cold, *measured.warm)
    found = [losses.compare(measured.eager[0].losses, run.losses, rounded, measured.case.dtype) for run in compiled]
    return max(filter(None, found), key=lambda each: (each.wrong_step > 0, each.largest), default=None)


def why_unsettled(measured: Measured) -> str:
    open_runs = [run for run in measured.cold if run.report.get("choosing") and not run.report["choosing"]["from_step"]]
    if open_runs:
        return f"no way was chosen in {len(open_runs[0].seconds)} steps: {open_runs[0].report['choosing']['words']}"
    return f"no step was compiled: {reasons(measured)}"


def reasons(measured: Measured) -> str:
    entries = [entry for run in measured.cold for entry in run.report.get("eager", [])]
    return (
        "; ".join(dict.fromkeys(f"{entry['module']}: {entry['reason']}" for entry in entries)) or "the report is empty"
    )


def median_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def break_even(compiled: Sequence[Training], step: float, fast: float) -> int | None:
    """The step at which the whole training has taken no longer than an eager one; None where it never does.

    `step` and `fast`: seconds of an eager and a compiled one.
    """
    if not compiled or fast >= step:
        return None
    behind = median(sum(run.seconds[: run.settled_at]) - run.settled_at * step for run in compiled)
    return max(run.settled_at for run in compiled) + math.ceil(max(0.0, behind) / (step - fast))


@dataclass(frozen=True)
class Row:
    """One figure against what it is compared with, and the goal for their ratio."""

    name: str
    value: float
    peer: str
    peer_value: float
    unit: str
    goal: str
    met: bool | None
    runs: int

    @property
    def ratio(self) -> float:
        """How many times the peer."""
        return self.value / self.peer_value


def means(figures: Sequence[Figure]) -> list[Row]:
    """Of each backend: geometric means of steps and of compilations, and the model that wins least."""
    rows = []
    for group in dict.fromkeys(group_of(each.case) for each in figures):
        own = [each for each in figures if group_of(each.case) == group]
        runs = min(each.runs for each in own)
        eager, compiled = (geometric_mean([getattr(each, key) for each in own]) for key in ("eager_ms", "compiled_ms"))
        on_gpu = own[0].case.device != "cpu"
        goal, met = (f"eager at least {GPU_GOAL:g}", eager / compiled >= GPU_GOAL) if on_gpu else ("", None)
        rows.append(Row(f"{group}: a compiled step", compiled, "an eager step", eager, "ms", goal, met, runs))
        rows.append(lowest(min(own, key=lambda each: each.ratio), LEAST_ON_GPU if on_gpu else LEAST_ON_CPU))
        again = [each for each in own if each.warm_seconds]
        if again:
            warm = geometric_mean([each.warm_seconds or 0.0 for each in again])
            cold = geometric_mean([each.cold_seconds for each in again])
            wanted = WARM_GOALS[own[0].case.framework]
            # A mean may hide one that is above.
            percents = [each.warm_percent or 0.0 for each in again] if own[0].case.framework == "tensorflow" else []
            met = max(percents, default=100 * warm / cold) <= wanted
            goal = f"at most {wanted / 100:.2f}{f', the highest is {max(percents) / 100:.2f}' if percents else ''}"
            rows.append(Row(f"{group}: compiling, warm cache", warm, "empty cache", cold, "s", goal, met, runs))
    return rows


def lowest(figure: Figure, least: float) -> Row:
    """Met or missed only if all of enough runs say so."""
    goal, met = f"eager at least {least:g}", figure.slowest >= least
    if figure.runs < ENOUGH_RUNS:
        goal, met = f"{goal}: cannot be told by fewer than {ENOUGH_RUNS} runs", None
    elif figure.slowest < least <= figure.fastest:
        goal, met = f"{goal}: cannot be told by runs of {figure.slowest:.2f} to {figure.fastest:.2f}", None
    name = f"{figure.case.name}, which wins least: a compiled step"
    return Row(name, figure.compiled_ms, "an eager step", figure.eager_ms, "ms", goal, met, figure.runs)


def group_of(case: Case) -> str:
    return " ".join((case.framework, case.backend, *([case.dtype] if case.device != "cpu" else [])))


def as_json(figures: Sequence[Figure], rows: Sequence[Row], measured: Sequence[Measured]) -> dict[str, Any]:
    return {
        "models": [
            asdict(each) | {"name": each.case.name, "ratio": each.ratio, "warm_percent": each.warm_percent}
            for each in figures
        ],
        "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
        "failed": {each.case.name: each.failed for each in measured if each.failed},
        "trainings": [
            {"case": each.case.name, "kind": kind, "seconds": run.seconds, "compile_seconds": seconds_of(run)}
            for each in measured
            for kind in KINDS
            for run in each.of(kind)
        ],
    }


def seconds_of(run: Training) -> float | None:
    return run.report.get("compile_seconds")


# -- tables ---------------------------------------------------------------------------------------------------------

HEADS = (
    "model", "eager ms", "its ms", "speed-up", "by the report", "compile s, cold", "warm", "warm %",
    "break-even step", "warm cache", "memory", "losses differ by", "runs", "way",
)  # fmt: skip


def table(figures: Sequence[Figure], failed: dict[str, str]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for each in figures:
        cells = (
            each.case.name, f"{each.eager_ms:.1f}", f"{each.compiled_ms:.1f}",
            f"{each.ratio:.2f} ({each.slowest:.2f} to {each.fastest:.2f})", said(each.reported, ".2f"),
            f"{each.cold_seconds:.1f}", said(each.warm_seconds, ".1f"), said(each.warm_percent, ".0f"),
            said(each.break_even, "d"), said(each.break_even_warm, "d"), said(each.peak_ratio, ".2f"),
            losses.verdict(each.loss_difference, each.case.dtype), str(each.runs), each.way,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"| {name} | failed: {why} |" + " |" * (len(HEADS) - 2) for name, why in failed.items()]
    return "\n".join(lines)


def said(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def row_table(rows: Sequence[Row]) -> str:
    lines = ["| what | | beside | | ratio | goal | runs |", "|---" * 7 + "|"]
    for row in rows:
        goal = f"{row.goal}: {'met' if row.met else 'missed'}" if row.met is not None else row.goal
        lines.append(
            f"| {row.name} | {row.value:.4g} {row.unit} | {row.peer} | {row.peer_value:.4g} {row.unit} "
            f"| {row.ratio:.3f} | {goal} | {row.runs} |"
        )
    return "\n".join(lines)


# -- the picture ----------------------------------------------------------------------------------------------------

WIDTH, LINE, TOP, LEFT, BARS = 860, 20, 40, 220, 420
COLORS = ("#8a94a0", "#3572b0", "#d98a29")
STYLE = "text{font:13px sans-serif;fill:#222}.t{font-weight:bold}"


def svg(figures: Sequence[Figure]) -> str:
    """A pair of bars for each model: a step eager and compiled, and compiling without and with a cache."""
    steps = [
        (each.case.name, [(each.eager_ms, f"{each.eager_ms:.1f} ms eager"),
                          (each.compiled_ms, f"{each.compiled_ms:.1f} ms compiled, {each.ratio:.2f} times as fast")])
        for each in figures
    ]  # fmt: skip
    compiling = [
        (each.case.name, [(each.cold_seconds, f"{each.cold_seconds:.1f} s, empty cache"),
                          (each.warm_seconds, f"{each.warm_seconds:.1f} s, {each.warm_percent:.0f}%")])
        for each in figures if each.warm_seconds is not None
    ]  # fmt: skip
    parts, top = bars("A step", steps, COLORS[:2], 0, each_alone=True)
    more, top = bars("Compiling", compiling, COLORS[1:], top) if compiling else ([], top)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}">'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, *more, "</svg>", ""])


Bars = Sequence[tuple[str, Sequence[tuple[float, str]]]]


def bars(title: str, groups: Bars, colors: Sequence[str], top: int, each_alone: bool = False) -> tuple[list[str], int]:
    """`each_alone`: the longest bar of each group has the full length, as models of different size are beside it."""
    parts = [text(10, top + 24, title, ' class="t"')]
    y = top + TOP
    most = max((value for _, group in groups for value, _ in group), default=0.0) or 1.0
    for name, group in groups:
        parts.append(text(10, y + 13, name))
        longest = max((value for value, _ in group), default=0.0) or 1.0
        for (value, label), color in zip(group, colors, strict=False):
            length = BARS * value / (longest if each_alone else most)
            parts.append(f'<rect fill="{color}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{LINE - 4}"/>')
            parts.append(text(LEFT + length + 8, y + 13, label))
            y += LINE
        y += LINE // 2
    return parts, y + 10


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>'
