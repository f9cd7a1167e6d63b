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
    "computing_seconds": float, "batch_bytes": float, "cpu": dict, "preprocessing": dict,
}  # fmt: skip
CPU_FIELDS = {"usable": float, "busy": float}
PREPROCESSING_FIELDS = {"batches": int, "cpu_seconds": float, "seconds": float, "workers": int}
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
        return sum(rank.cpu for rank in self.ranks) / batches if batches else None

    @property
    def batch_bytes(self) -> float:
        return median(rank.batch_bytes for rank in self.ranks)

    @property
    def busy(self) -> float:
        """Share of the processors that worked, on the host where it is highest."""
        return max(rank.busy for rank in self.ranks)

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
    if value["steps"] < 1 or value["step_seconds"] <= 0:
        raise ProfileError(
            f"{file}: expected at least one measured step, found none", "let the script train for longer"
        )
    gpu = value.get("gpu")
    use = gpu.get("use") if isinstance(gpu, dict) else None
    return Rank(
        value["host"], value["framework"], value["steps"], value["step_seconds"], value["waiting_seconds"],
        value["computing_seconds"], value["batch_bytes"], value["cpu"]["usable"], value["cpu"]["busy"], work["batches"],
        work["cpu_seconds"], work["seconds"], work["workers"], float(use) if isinstance(use, int | float) else None,
    )  # fmt: skip


def _check(file: Path, path: str, value: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    for name, kind in fields.items():
        found = value.get(name)
        fits = isinstance(found, int | float) and found >= 0 if kind is float else isinstance(found, kind)
        if not fits or isinstance(found, bool):
            word = {float: "a number from 0 on", int: "a whole number", str: "text", dict: "an object"}[kind]
            raise ProfileError(f"{file}: {path}{name}: expected {word}, found {json.dumps(found)[:80]}", REMEDY)


def summary(profile: Profile) -> str:
    """What was measured, and which it is."""
    first = profile.ranks[0]
    cpu = "unknown" if profile.cpu is None else f"{profile.cpu:.3f}"
    lines = [
        f"{len(profile.ranks)} ranks, {sum(rank.steps for rank in profile.ranks)} steps of {profile.framework}",
        f"  step with the data ready  {profile.step * 1000:.1f} ms",
        f"  waiting for data          {profile.waiting:.0%} of the time",
        f"  preprocessing             {cpu} CPU seconds for a batch, by {first.workers} workers of each rank",
        f"  processors                {profile.busy:.0%} of {first.usable:g} busy",
    ]
    if profile.gpu_use is not None:
        lines.append(f"  GPUs                      {profile.gpu_use:.0%} busy")
    if profile.batch_bytes:
        lines.append(f"  a batch                   {profile.batch_bytes / 1e6:.2f} MB")
    return "\n".join([*lines, f"{'; '.join(_meaning(profile))}"])


def _meaning(profile: Profile) -> list[str]:
    needed = profile.workers_needed
    return {
        COMPUTING: ["not waiting for data: faster preprocessing changes nothing"],
        PROCESSORS: [
            "CPU-bound: all processors work and training waits for data",
            "`dlc advise` says which machines help",
        ],
        WORKERS: [
            "too few workers: training waits for data while processors are free",
            f"first give the DataLoader num_workers={needed}, then measure again",
        ],
        INPUT: [
            "bound by reading: workers wait for files or the network",
            "more CPUs change nothing; look at where the data is",
        ],
        ELSEWHERE: ["training waits for data while processors are free; what for could not be seen from outside"],
    }[profile.kind]
