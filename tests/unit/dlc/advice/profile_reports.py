"""Reports of a profile for tests of the advice: a job bound by its processors, and one bound by reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# 8 workers on 8 processors, 1193 ms for a step that takes 184 ms with the data ready.
REPORT: dict[str, Any] = {
    "version": 1, "state": "ended", "framework": "torch", "host": "algo-1", "rank": 0, "steps": 100,
    "step_seconds": 0.184, "waiting_seconds": 100.9, "computing_seconds": 18.4, "starting_seconds": 0.5,
    "batch_bytes": 3_211_264.0,
    "preprocessing": {"batches": 120, "cpu_seconds": 120 * 9.544, "seconds": 120 * 9.6, "workers": 8},
    "cpu": {"usable": 8.0, "busy": 0.99, "seconds": 120.0, "job_cpu_seconds": 1000.0},
    "gpu": {"use": 0.15, "gpus": []},
}  # fmt: skip
# Training waits 91% of the time: a step of 29 ms takes 323 ms. Workers are asleep in nearly all of a batch's time.
READS: dict[str, Any] = {
    "step_seconds": 0.029, "waiting_seconds": 29.4, "computing_seconds": 2.9,
    "cpu": {"busy": 0.1, "host": 8, "others": 0.2},
    "preprocessing": {"batches": 100, "cpu_seconds": 0.9, "seconds": 32.0, "queued_seconds": 0.1, "workers": 1},
}  # fmt: skip


def written(folder: Path, rank: int = 0, **changes: Any) -> Path:
    """Write the report of a rank, with changes, into a folder; return the folder."""
    value = {
        **REPORT,
        "rank": rank,
        **{key: {**REPORT.get(key, {}), **new} if isinstance(new, dict) else new for key, new in changes.items()},
    }
    (folder / f"rank-{rank}.json").write_text(json.dumps(value))
    return folder
