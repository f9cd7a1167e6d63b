"""Reads what dlc_runtime.profile wrote, for all ranks of a job. Reads files, changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from dlc.advice.rank import Rank
from dlc.advice.verdict import find_kind, find_workers, split_batch
from dlc.core.errors import ProfileError, UnmeasuredError

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
# Shares of waiting that are further from each other are of ranks that have no mean.
DIFFER = 0.2
LOOP = "a loop over a DataLoader or a tf.data.Dataset that has more steps than DLC_PROFILE_SKIP leaves out (3)"
WATCH = "measure another loop by `for batch in dlc_runtime.profile.watch(batches)`; give a short loop more steps"
REMEDY = "write a new one: DLC_PROFILE=1, or python -m dlc_runtime.profile train.py"


@dataclass(frozen=True)
class Profile:
    """All ranks together; a rank trains one batch on one accelerator in each step."""

    ranks: tuple[Rank, ...]

    @property
    def framework(self) -> str:
        return self.ranks[0].framework

    @property
    def slowest(self) -> Rank:
        """Return the rank that waits most: the others wait for it."""
        return max(self.ranks, key=lambda rank: rank.wait)

    @property
    def differ(self) -> bool:
        """Tell whether ranks wait so differently that a mean would be true for none of them."""
        return self.slowest.wait - min(rank.wait for rank in self.ranks) >= DIFFER

    @property
    def counted(self) -> tuple[Rank, ...]:
        """Return the ranks whose figures are the job's: all, or the slowest alone if they differ."""
        return (self.slowest,) if self.differ else self.ranks

    @property
    def step(self) -> float:
        return median(rank.step for rank in self.counted)

    @property
    def interval(self) -> float:
        """Return the seconds of a step with its wait."""
        return median(rank.interval for rank in self.counted)

    @property
    def waiting(self) -> float:
        """Return the share of the time that is spent waiting for data."""
        return sum(r.waiting for r in self.counted) / sum(r.waiting + r.computing for r in self.counted)

    @property
    def cpu(self) -> float | None:
        """Return CPU seconds that prepare one batch; None if this could not be seen."""
        batches = sum(rank.batches for rank in self.counted)
        return max(sum(rank.cpu for rank in self.counted) / batches, LEAST) if batches else None

    @property
    def batch_bytes(self) -> float:
        return median(rank.batch_bytes for rank in self.counted)

    @property
    def busy(self) -> float:
        """Return the share of the processors that worked, on the host with the highest share."""
        return max(rank.busy for rank in self.counted)

    @property
    def starting(self) -> float:
        """Return the share of the whole time that passes before the first batch of each iteration."""
        whole = sum(rank.waiting + rank.computing + rank.starting for rank in self.counted)
        return sum(rank.starting for rank in self.counted) / whole

    @property
    def taken(self) -> float | None:
        """Return the share of the host's processors that other programs took, on the host with the highest share."""
        known = [rank.others / rank.host_cpus for rank in self.counted if rank.others is not None and rank.host_cpus]
        return min(max(known), 1.0) if known else None

    @property
    def pressure(self) -> float | None:
        """Return the share of the time that something waited for a processor, on the host with the highest share."""
        return max((rank.pressure for rank in self.counted if rank.pressure is not None), default=None)

    @property
    def gpu_use(self) -> float | None:
        known = [rank.gpu_use for rank in self.ranks if rank.gpu_use is not None]
        return sum(known) / len(known) if known else None

    @property
    def ranks_on_host(self) -> int:
        """Count the ranks that share the slowest rank's processors."""
        return sum(rank.host == self.slowest.host for rank in self.ranks)

    @property
    def kind(self) -> str:
        """Return what the job waits for: what its slowest rank waits for."""
        return find_kind(self.slowest)

    @property
    def worker_use(self) -> float:
        """Return the part of a batch's time that its worker computes.

        Lines for a processor do not count; else it waits.
        """
        shares = split_batch(self.slowest)
        working = 1.0 - shares.queued if shares else 0.0
        return shares.computing / working if shares and working else 0.0

    @property
    def queued(self) -> float:
        """Return the part of a batch's time that its worker stands in a line for a processor."""
        shares = split_batch(self.slowest)
        return shares.queued if shares else 0.0

    @property
    def workers_needed(self) -> int | None:
        """Return how many workers of a rank prepare a batch in each step's time; None if more change nothing."""
        return find_workers(self.slowest)


def read_profile(paths: Sequence[Path]) -> Profile:
    """Read files, and folders with a file for each rank.

    Raises UnmeasuredError for a folder that a job did not make, and ProfileError for all else.
    """
    if absent := next((path for path in paths if _was_not_made(path)), None):
        raise UnmeasuredError(
            f"{absent}: expected a folder with files rank-*.json, found none: a job makes it with its first"
            f" report, and makes no report without {LOOP}",
            WATCH,
        )
    files = [file for path in paths for file in (sorted(path.glob("rank-*.json")) if path.is_dir() else [path])]
    if not files:
        raise ProfileError(f"{', '.join(map(str, paths))}: expected files rank-*.json, found none", REMEDY)
    ranks = tuple(_read_rank(file) for file in files)
    frameworks = sorted({rank.framework for rank in ranks})
    if len(frameworks) > 1:
        raise ProfileError(f"{paths[0]}: expected reports of one job, found {' and '.join(frameworks)}", REMEDY)
    return Profile(ranks)


def _was_not_made(path: Path) -> bool:
    """Tell whether a job left results, and no folder with reports among them."""
    return not path.exists() and not path.suffix and path.parent.is_dir()


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
    seconds = value["waiting_seconds"] + value["computing_seconds"]
    if value["steps"] < 1 or min(value["step_seconds"], seconds / value["steps"]) < LEAST:
        raise ProfileError(
            f"{file}: expected at least one measured step, found none", "let the script train for longer"
        )
    gpu, cpu, slow = value.get("gpu"), value["cpu"], work.get("slow")
    slow = slow if isinstance(slow, dict) else {}
    use = gpu.get("use") if isinstance(gpu, dict) else None
    left_out = value.get("compiling")
    compiling = left_out if isinstance(left_out, dict) else {}
    return Rank(
        number=int(_read_number(value.get("rank")) or 0),
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
        queued=_read_number(work.get("queued_seconds")),
        waiting_queued=_read_number(value.get("waiting_queued_seconds")) or 0.0,
        host_cpus=_read_number(cpu.get("host")) or 0.0,
        others=_read_number(cpu.get("others")),
        stolen=_read_number(cpu.get("stolen")) or 0.0,
        pressure=_read_pressure(cpu.get("pressure")),
        parallel=bool(work.get("parallel")),
        compiled_steps=int(_read_number(compiling.get("steps")) or 0),
        compiling=_read_number(compiling.get("seconds")) or 0.0,
        slow_batches=int(_read_number(slow.get("batches")) or 0),
        timed_batches=int(_read_number(slow.get("of")) or 0),
        asleep_in=_read_looks(work.get("asleep_in")),
        slow_share=_read_number(slow.get("share")) or 0.0,
    )


def _read_number(found: object) -> float | None:
    """Return what a report may leave out; None if it does, or if it is no figure."""
    return float(found) if isinstance(found, int | float) and _has_form(found, float) else None


def _read_looks(found: object) -> dict[str, int] | None:
    """Return in how many looks workers waited in what; None if the report has no looks."""
    looks = {str(name): _read_number(value) for name, value in found.items()} if isinstance(found, dict) else {}
    return {name: int(value) for name, value in looks.items() if value} or None


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
