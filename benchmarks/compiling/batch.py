"""The largest batch of each model on the GPU, eager and compiled: a process for each trial."""

from __future__ import annotations

import sys
from pathlib import Path

from compiling.figures import Case, Row
from compiling.runs import FailedTrainingError, Pythons, Runner

STEPS = 8  # five of them eager
FIRST = 8
MOST = 4096
NEAR = 1.125  # times the largest batch that fits: close enough
FULL = ("out of memory", "OutOfMemoryError")


def search(cases: list[Case], folder: Path, environments: dict[str, Pythons]) -> list[Row]:
    rows = []
    for case in cases:
        runner = Runner(folder, "base", STEPS, environments)
        try:
            eager, compiled = (largest(case, runner, kind) for kind in ("eager", "compiled"))
        except FailedTrainingError as fault:
            print(fault, file=sys.stderr)
            continue
        rows.append(Row(f"{case.name}: largest batch", compiled, "eager", eager, "samples", "", None, 1))
    return rows


def largest(case: Case, runner: Runner, kind: str) -> int:
    """At least an eighth below the true one: doubled until it does not fit, then halfway between."""
    fits, fails = 0, 0
    batch = FIRST
    while batch <= MOST and batch > 0:
        if trial(case, runner, kind, batch):
            fits = batch
        else:
            fails = batch
        if fails and fits and fails <= fits * NEAR:
            break
        batch = next_batch(fits, fails)
        if batch in (fits, fails):
            break
    if not fits:
        raise FailedTrainingError(f"{case.name}, {kind}: not even a batch of 1 fits")
    return fits


def next_batch(fits: int, fails: int) -> int:
    return fits * 2 if not fails else (fits + fails) // 2


def trial(case: Case, runner: Runner, kind: str, batch: int) -> bool:
    cache = runner.folder / "cache" / case.name.replace(" ", "-") if kind == "compiled" else None
    try:
        done = runner._replace(folder=runner.folder / f"{kind}-{batch}").train(case, kind, cache, batch)
    except FailedTrainingError as fault:
        if any(word in str(fault) for word in FULL):
            return False
        raise
    return kind == "eager" or bool(done.settled)
