"""Reads what dlc_runtime.profile wrote and says what a job waits for. Reads files, changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from dlc.core.errors import ProfileError

VERSION = 1
FIELDS = {
    "host": str, "framework": str, "steps": int, "step_seconds": float, "waiting_seconds": float,
    "computing_seconds": float, "starting_seconds": float, "batch_bytes": float, "cpu": dict, "preprocessing": dict,
}  # fmt: skip
CPU_FIELDS = {"usable": float, "busy": float}
PREPROCESSING_FIELDS = {"batches": int, "cpu_seconds": float, "seconds": float, "workers": int}
# The most of any figure. Less than a nanosecond and more than this is no measurement.
MOST = 1e15
# CPU seconds of a batch that costs nothing to prepare.
LEAST = 1e-9
# Share of the time: less is noise.
WAITS = 0.05
# Share of the usable processors: more is full.
BUSY = 0.85
# Share of a batch's time in a line for a processor: more means that there were too few.
QUEUED = 0.25
# Share of the host's processors that other programs take: less is what any host does.
TAKEN = 0.2
# Share of the time: with free processors lines are short.
LINES = 0.5
# Steps; fewer can be chance.
FEW = 30
# So near a bound it could be on the other side of it.
NEAR = 0.02
COMPUTING, PROCESSORS, WORKERS, INPUT, ELSEWHERE = "computing", "processors", "workers", "input", "elsewhere"
OTHERS = "others"
REMEDY = "write a new one: DLC_PROFILE=1, or python -m dlc_runtime.profile train.py"


@dataclass(frozen=True)
class Rank:
    """One process's report."""

    host: str
    framework: str
    steps: int
    # Seconds with the data ready: the median.
    step: float
    # Seconds in all.
    waiting: float
    computing: float
    # Seconds until the first batch of each iteration, while workers are started.
    starting: float
    batch_bytes: float
    # Processors of the host that this job may use.
    usable: float
    # Share of them that worked.
    busy: float
    batches: int
    # CPU seconds for all batches.
    cpu: float
    # Seconds of workers, for all batches.
    fetching: float
    # 0: the training process itself.
    workers: int
    gpu_use: float | None
    # Seconds of workers in a line for a processor, for all batches.
    queued: float = 0.0
    # Processors of the host; 0: unknown.
    host_cpus: float = 0.0
    # How many of them other programs took.
    others: float | None = None
    # Share of the time that something stood in a line for a processor.
    pressure: float | None = None
    # Whether the pipeline prepares several batches at a time.
    parallel: bool = False
    # Steps that are left out: in them something was compiled.
    compiled_steps: int = 0
    # Seconds of those steps.
    compiling: float = 0.0


@dataclass(frozen=True)
class Profile:
    """All ranks together; a rank trains one batch on one accelerator in each step."""

    ranks: tuple[Rank, ...]

    @property
    def framework(self) -> str:
        return self.ranks[0].framework

    @property
    def step(self) -> float:
        return median(rank.step for rank in self.ranks)

    @property
    def waiting(self) -> float:
        """Return the share of the time that is spent waiting for data."""
        return sum(r.waiting for r in self.ranks) / sum(r.waiting + r.computing for r in self.ranks)

    @property
    def cpu(self) -> float | None:
        """Return CPU seconds that prepare one batch; None if this could not be seen."""
        batches = sum(rank.batches for rank in self.ranks)
        return max(sum(rank.cpu for rank in self.ranks) / batches, LEAST) if batches else None

    @property
    def batch_bytes(self) -> float:
        return median(rank.batch_bytes for rank in self.ranks)

    @property
    def busy(self) -> float:
        """Return the share of the processors that worked, on the host with the highest share."""
        return max(rank.busy for rank in self.ranks)

    @property
    def starting(self) -> float:
        """Return the share of the whole time that passes before the first batch of each iteration."""
        whole = sum(rank.waiting + rank.computing + rank.starting for rank in self.ranks)
        return sum(rank.starting for rank in self.ranks) / whole

    @property
    def worker_use(self) -> float:
        """Return the part of a batch's time that its worker computes.

        Lines for a processor do not count; else it waits.
        """
        seconds = sum(rank.fetching - min(rank.queued, rank.fetching) for rank in self.ranks)
        return min(sum(rank.cpu for rank in self.ranks) / seconds, 1.0) if seconds else 0.0

    @property
    def queued(self) -> float:
        """Return the part of a batch's time that its worker stands in a line for a processor."""
        seconds = sum(rank.fetching for rank in self.ranks)
        return min(sum(rank.queued for rank in self.ranks) / seconds, 1.0) if seconds else 0.0

    @property
    def taken(self) -> float | None:
        """Return the share of the host's processors that other programs took, on the host with the highest share."""
        known = [rank.others / rank.host_cpus for rank in self.ranks if rank.others is not None and rank.host_cpus]
        return min(max(known), 1.0) if known else None

    @property
    def crowded(self) -> bool:
        """Tell whether a host's processors were full, and other programs had a part of them."""
        return any(
            rank.others / rank.host_cpus >= TAKEN and rank.others + rank.busy * rank.usable >= BUSY * rank.host_cpus
            for rank in self.ranks
            if rank.others is not None and rank.host_cpus
        )

    @property
    def pressure(self) -> float | None:
        """Return the share of the time that something waited for a processor, on the host with the highest share."""
        return max((rank.pressure for rank in self.ranks if rank.pressure is not None), default=None)

    @property
    def parallel(self) -> bool:
        return any(rank.parallel for rank in self.ranks)

    @property
    def gpu_use(self) -> float | None:
        known = [rank.gpu_use for rank in self.ranks if rank.gpu_use is not None]
        return sum(known) / len(known) if known else None

    @property
    def kind(self) -> str:
        """Return what the job waits for."""
        if self.waiting < WAITS:
            return COMPUTING
        if self.busy >= BUSY:
            return PROCESSORS
        if self.crowded:
            return OTHERS
        if self.queued >= QUEUED:
            return PROCESSORS
        if self.cpu is None:
            return ELSEWHERE
        return INPUT if self.worker_use < 0.5 else WORKERS

    @property
    def workers_needed(self) -> int:
        """Return how many workers of a rank prepare a batch in each step's time."""
        batches = sum(rank.batches for rank in self.ranks)
        each = sum(rank.fetching for rank in self.ranks) / batches if batches else 0.0
        return max(int(each / self.step + 0.999), 1)


def read_profile(paths: Sequence[Path]) -> Profile:
    """Read files, and folders with a file for each rank. Raises ProfileError."""
    files = [file for path in paths for file in (sorted(path.glob("rank-*.json")) if path.is_dir() else [path])]
    if not files:
        raise ProfileError(f"{', '.join(map(str, paths))}: expected files rank-*.json, found none", REMEDY)
    ranks = tuple(_read_rank(file) for file in files)
    frameworks = sorted({rank.framework for rank in ranks})
    if len(frameworks) > 1:
        raise ProfileError(f"{paths[0]}: expected reports of one job, found {' and '.join(frameworks)}", REMEDY)
    return Profile(ranks)


def _read_rank(file: Path) -> Rank:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise ProfileError(f"{file}: {error.strerror}", REMEDY) from None
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{file}: expected JSON, found {error}", REMEDY) from None
    if not isinstance(value, dict) or value.get("version") != VERSION:
        found = value.get("version") if isinstance(value, dict) else type(value).__name__
        raise ProfileError(f"{file}: expected a report of version {VERSION}, found {found!r}", REMEDY)
    _require_form(file, "", value, FIELDS)
    _require_form(file, "cpu.", value["cpu"], CPU_FIELDS)
    work = value["preprocessing"]
    _require_form(file, "preprocessing.", work, PREPROCESSING_FIELDS)
    if value["steps"] < 1 or value["step_seconds"] < LEAST or not value["waiting_seconds"] + value["computing_seconds"]:
        raise ProfileError(
            f"{file}: expected at least one measured step, found none", "let the script train for longer"
        )
    gpu, cpu = value.get("gpu"), value["cpu"]
    use = gpu.get("use") if isinstance(gpu, dict) else None
    left_out = value.get("compiling")
    compiling = left_out if isinstance(left_out, dict) else {}
    return Rank(
        host=value["host"],
        framework=value["framework"],
        steps=value["steps"],
        step=value["step_seconds"],
        waiting=value["waiting_seconds"],
        computing=value["computing_seconds"],
        starting=value["starting_seconds"],
        batch_bytes=value["batch_bytes"],
        usable=cpu["usable"],
        busy=cpu["busy"],
        batches=work["batches"],
        cpu=work["cpu_seconds"],
        fetching=work["seconds"],
        workers=work["workers"],
        gpu_use=_read_number(use),
        queued=_read_number(work.get("queued_seconds")) or 0.0,
        host_cpus=_read_number(cpu.get("host")) or 0.0,
        others=_read_number(cpu.get("others")),
        pressure=_read_pressure(cpu.get("pressure")),
        parallel=bool(work.get("parallel")),
        compiled_steps=int(_read_number(compiling.get("steps")) or 0),
        compiling=_read_number(compiling.get("seconds")) or 0.0,
    )


def _read_number(found: object) -> float | None:
    """Return what a report may leave out; None if it does, or if it is no figure."""
    return float(found) if isinstance(found, int | float) and _has_form(found, float) else None


def _read_pressure(found: object) -> float | None:
    """Return the pressure of the container that this job is in, else of the host."""
    known = [_read_number(found.get(name)) for name in ("container", "host")] if isinstance(found, dict) else []
    return next((value for value in known if value is not None), None)


def _require_form(file: Path, path: str, value: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    for name, kind in fields.items():
        found = value.get(name)
        if not _has_form(found, kind):
            word = {float: "a number from 0 on", int: "a whole number", str: "text", dict: "an object"}[kind]
            raise ProfileError(f"{file}: {path}{name}: expected {word}, found {json.dumps(found)[:80]}", REMEDY)


def _has_form(found: object, kind: type) -> bool:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return kind in (str, dict) and isinstance(found, kind)
    return 0 <= found <= MOST and (kind is float or (kind is int and isinstance(found, int)))


def summarize(profile: Profile) -> str:
    """Write what was measured, and which kind it is."""
    first = profile.ranks[0]
    shared = "at most " if profile.framework == "tensorflow" and profile.gpu_use is None else ""
    cpu = "unknown" if profile.cpu is None else f"{shared}{profile.cpu:.3f}"
    by = f"{first.workers} workers of each rank" if first.workers else "the training process"
    rows = [
        ("step with the data ready", f"{profile.step * 1000:.1f} ms"),
        ("waiting for data", f"{profile.waiting:.0%} of the time"),
        ("before the first batch", f"{profile.starting:.0%} of the time"),
        ("preprocessing", f"{cpu} CPU seconds for a batch, by {by}"),
        ("processors", f"{profile.busy:.0%} of {first.usable:g} busy"),
        ("other programs", _describe_taken(profile)),
        ("GPUs", "unknown" if profile.gpu_use is None else f"{profile.gpu_use:.0%} busy"),
        ("a batch", f"{profile.batch_bytes / 1e6:.3f} MB"),
    ]
    steps = sum(rank.steps for rank in profile.ranks)
    compiled = sum(rank.compiled_steps for rank in profile.ranks)
    if compiled:
        seconds = sum(rank.compiling for rank in profile.ranks)
        rows.append(("left out", f"{compiled} steps in which something was compiled, {seconds:.1f} s"))
    lines = [
        f"{steps} steps of {profile.framework} on {len(profile.ranks)} rank{'s'[: len(profile.ranks) - 1]}",
        *(f"  {n:<26}{v}" for n, v in rows),
    ]
    return "\n".join([*lines, *explain_kind(profile), describe_sureness(profile)])


def _describe_taken(profile: Profile) -> str:
    if profile.taken is None:
        return "unknown"
    return f"took {profile.taken:.0%} of the host's {profile.ranks[0].host_cpus:g} processors"


def describe_sureness(profile: Profile) -> str:
    """Tell how sure the answer is, and what speaks against it."""
    steps = sum(rank.steps for rank in profile.ranks)
    doubts = [f"only {steps} steps were measured"] if steps < FEW else []
    if profile.kind != OTHERS and (profile.taken or 0.0) >= TAKEN:
        doubts.append(f"other programs {_describe_taken(profile)}")
    if abs(profile.waiting - WAITS) < NEAR or (profile.kind != COMPUTING and abs(profile.busy - BUSY) < NEAR):
        doubts.append("a figure is close to a bound")
    if profile.kind in (WORKERS, INPUT) and profile.taken is None:
        doubts.append("what other programs took could not be seen")
    if profile.kind in (WORKERS, INPUT) and (profile.pressure or 0.0) >= LINES:
        doubts.append(f"programs stood in a line for a processor {profile.pressure:.0%} of the time")
    return f"not sure: {'; '.join(doubts)}" if doubts else "sure: nothing that was measured speaks against it"


def _describe_full(profile: Profile) -> str:
    if profile.busy >= BUSY:
        return "all processors are busy"
    return f"workers stand in a line for a processor {profile.queued:.0%} of the time"


def explain_kind(profile: Profile) -> list[str]:
    """Tell which kind it is, and what to do first."""
    needed = f"give the DataLoader num_workers={profile.workers_needed}"
    if profile.framework != "torch":
        needed = "prepare batches in parallel (tf.data: num_parallel_calls=tf.data.AUTOTUNE, prefetch)"
        if profile.parallel:
            needed = "look for what runs one at a time: a generator, a py_function, a map without num_parallel_calls"
    in_turn = profile.framework != "torch" and profile.parallel
    too_few = "a part of the pipeline is not parallel" if in_turn else "too few workers"
    lines = {
        COMPUTING: ["not waiting for data: faster preprocessing changes nothing"],
        PROCESSORS: [
            f"CPU-bound: {_describe_full(profile)} and training waits for data; `dlc advise` says which machines help"
        ],
        OTHERS: [
            "other programs took the processors: training waits for data; measure again on a host that is free,"
            " or give the job fewer workers than processors that are left"
        ],
        WORKERS: [f"{too_few}: training waits for data while processors are free; first {needed}, then measure again"],
        INPUT: [
            "bound by reading: workers wait for files or the network; more CPUs change nothing, look at the storage"
        ],
        ELSEWHERE: ["training waits for data while processors are free; what for could not be seen"],
    }[profile.kind]
    if profile.starting > WAITS and profile.ranks[0].workers:
        lines.append("workers are started for each epoch: persistent_workers=True keeps them")
    return lines
