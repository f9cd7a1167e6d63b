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
MOST = 1e15  # of any figure; less than a nanosecond and more than this is no measurement
LEAST = 1e-9  # seconds; CPU seconds of a batch that costs nothing to prepare
WAITS = 0.05  # of the time: less is noise
BUSY = 0.85  # of the usable processors: more is full
COMPUTING, PROCESSORS, WORKERS, INPUT, ELSEWHERE = "computing", "processors", "workers", "input", "elsewhere"
REMEDY = "write a new one: DLC_PROFILE=1, or python -m dlc_runtime.profile train.py"


@dataclass(frozen=True)
class Rank:
    """One process's report."""

    host: str
    framework: str
    steps: int
    step: float  # seconds with the data ready: the median
    waiting: float  # seconds in all
    computing: float
    starting: float  # seconds until the first batch of each iteration, while workers are started
    batch_bytes: float
    usable: float  # processors of the host that this job may use
    busy: float  # share of them that worked
    batches: int
    cpu: float  # seconds for all batches
    fetching: float  # seconds of workers, for all batches
    workers: int  # 0: the training process itself
    gpu_use: float | None


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
        """Share of the time that is spent waiting for data."""
        return sum(r.waiting for r in self.ranks) / sum(r.waiting + r.computing for r in self.ranks)

    @property
    def cpu(self) -> float | None:
        """CPU seconds that prepare one batch; None where this could not be seen."""
        batches = sum(rank.batches for rank in self.ranks)
        return max(sum(rank.cpu for rank in self.ranks) / batches, LEAST) if batches else None

    @property
    def batch_bytes(self) -> float:
        return median(rank.batch_bytes for rank in self.ranks)

    @property
    def busy(self) -> float:
        """Share of the processors that worked, on the host where it is highest."""
        return max(rank.busy for rank in self.ranks)

    @property
    def starting(self) -> float:
        """Share of the whole time that passes before the first batch of each iteration."""
        whole = sum(rank.waiting + rank.computing + rank.starting for rank in self.ranks)
        return sum(rank.starting for rank in self.ranks) / whole

    @property
    def worker_use(self) -> float:
        """The part of a batch's time that its worker computes; the rest it waits for files or the network."""
        seconds = sum(rank.fetching for rank in self.ranks)
        return min(sum(rank.cpu for rank in self.ranks) / seconds, 1.0) if seconds else 0.0

    @property
    def gpu_use(self) -> float | None:
        known = [rank.gpu_use for rank in self.ranks if rank.gpu_use is not None]
        return sum(known) / len(known) if known else None

    @property
    def kind(self) -> str:
        """What the job waits for."""
        if self.waiting < WAITS:
            return COMPUTING
        if self.busy >= BUSY:
            return PROCESSORS
        if self.cpu is None:
            return ELSEWHERE
        return INPUT if self.worker_use < 0.5 else WORKERS

    @property
    def workers_needed(self) -> int:
        """Worker processes of one rank that prepare a batch in each step's time."""
        batches = sum(rank.batches for rank in self.ranks)
        each = sum(rank.fetching for rank in self.ranks) / batches if batches else 0.0
        return max(int(each / self.step + 0.999), 1)


def read_profile(paths: Sequence[Path]) -> Profile:
    """Files, and folders with a file for each rank. Raises ProfileError."""
    files = [file for path in paths for file in (sorted(path.glob("rank-*.json")) if path.is_dir() else [path])]
    if not files:
        raise ProfileError(f"{', '.join(map(str, paths))}: expected files rank-*.json, found none", REMEDY)
    ranks = tuple(_rank(file) for file in files)
    frameworks = sorted({rank.framework for rank in ranks})
    if len(frameworks) > 1:
        raise ProfileError(f"{paths[0]}: expected reports of one job, found {' and '.join(frameworks)}", REMEDY)
    return Profile(ranks)


def _rank(file: Path) -> Rank:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise ProfileError(f"{file}: {error.strerror}", REMEDY) from None
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{file}: expected JSON, found {error}", REMEDY) from None
    if not isinstance(value, dict) or value.get("version") != VERSION:
        found = value.get("version") if isinstance(value, dict) else type(value).__name__
        raise ProfileError(f"{file}: expected a report of version {VERSION}, found {found!r}", REMEDY)
    _check(file, "", value, FIELDS)
    _check(file, "cpu.", value["cpu"], CPU_FIELDS)
    work = value["preprocessing"]
    _check(file, "preprocessing.", work, PREPROCESSING_FIELDS)
    if value["steps"] < 1 or value["step_seconds"] < LEAST or not value["waiting_seconds"] + value["computing_seconds"]:
        raise ProfileError(
            f"{file}: expected at least one measured step, found none", "let the script train for longer"
        )
    gpu, cpu = value.get("gpu"), value["cpu"]
    use = gpu.get("use") if isinstance(gpu, dict) else None
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
        gpu_use=float(use) if isinstance(use, int | float) and _fits(use, float) else None,
    )


def _check(file: Path, path: str, value: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    for name, kind in fields.items():
        found = value.get(name)
        if not _fits(found, kind):
            word = {float: "a number from 0 on", int: "a whole number", str: "text", dict: "an object"}[kind]
            raise ProfileError(f"{file}: {path}{name}: expected {word}, found {json.dumps(found)[:80]}", REMEDY)


def _fits(found: object, kind: type) -> bool:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return kind in (str, dict) and isinstance(found, kind)
    return 0 <= found <= MOST and (kind is float or (kind is int and isinstance(found, int)))


def summary(profile: Profile) -> str:
    """What was measured, and which it is."""
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
        ("GPUs", "unknown" if profile.gpu_use is None else f"{profile.gpu_use:.0%} busy"),
        ("a batch", f"{profile.batch_bytes / 1e6:.3f} MB"),
    ]
    steps = sum(rank.steps for rank in profile.ranks)
    lines = [
        f"{steps} steps of {profile.framework} on {len(profile.ranks)} rank{'s'[: len(profile.ranks) - 1]}",
        *(f"  {n:<26}{v}" for n, v in rows),
    ]
    return "\n".join([*lines, *meaning(profile)])


def meaning(profile: Profile) -> list[str]:
    """Which it is, and what to do first."""
    needed = f"give the DataLoader num_workers={profile.workers_needed}"
    if profile.framework != "torch":
        needed = "prepare batches in parallel (tf.data: num_parallel_calls=tf.data.AUTOTUNE, prefetch)"
    lines = {
        COMPUTING: ["not waiting for data: faster preprocessing changes nothing"],
        PROCESSORS: [
            "CPU-bound: all processors are busy and training waits for data; `dlc advise` says which machines help"
        ],
        WORKERS: [
            f"too few workers: training waits for data while processors are free; first {needed}, then measure again"
        ],
        INPUT: [
            "bound by reading: workers wait for files or the network; more CPUs change nothing, look at the storage"
        ],
        ELSEWHERE: ["training waits for data while processors are free; what for could not be seen"],
    }[profile.kind]
    if profile.starting > WAITS and profile.ranks[0].workers:
        lines.append("workers are started for each epoch: persistent_workers=True keeps them")
    return lines
