"""What was found, as a table and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlc.core.text import format_bytes
from dlc.tune.request import Request
from dlc.tune.trial_result import TIGHT, Trial
from dlc.tune.tune import Found
from dlc_runtime.scaling import RULES, scale_learning_rate

LIMITS = {
    "memory": "the next one ran out of memory",
    TIGHT: "the next one leaves less than the margin",
    "time": "the next one took longer than a trial may",
    "data": "the data have no larger batch",
    "": "no larger one was tried: --most",
}


def as_text(request: Request, found: Sequence[Found]) -> str:
    """Return a row for each batch with a column pair for each mode, then what to take."""
    return "\n".join([*_make_table(found), "", *(_write_advice(request, each) for each in found)])


def _make_table(found: Sequence[Found]) -> list[str]:
    by_batch = {(each.mode, trial.batch): trial for each in found for trial in each.trials}
    batches = sorted({batch for _, batch in by_batch})
    head = ["BATCH", *(f"{each.mode.upper()}{part}" for each in found for part in (" PEAK", " AFTER START", " STEP"))]
    rows = [head]
    for batch in batches:
        rows.append([str(batch), *(cell for each in found for cell in _format_cells(by_batch.get((each.mode, batch))))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _format_cells(trial: Trial | None) -> tuple[str, str, str]:
    if trial is None:
        return "-", "-", "-"
    if trial.peak is None or trial.steady is None or trial.step_seconds is None:
        return trial.outcome, "-", "-"
    size = format_bytes(trial.peak) if trial.fits else f"{trial.outcome}: {format_bytes(trial.peak)}"
    return size, format_bytes(trial.steady), f"{1000 * trial.step_seconds:.0f} ms"


def _write_advice(request: Request, found: Found) -> str:
    rates = _compute_rates(request, found.batch)
    rate = f", {request.rate_name}={rates['linear']:.3g} (linear) or {rates['sqrt']:.3g} (sqrt)" if rates else ""
    return f"{found.mode}: {request.batch_name}={found.batch}{rate}; {LIMITS[found.limit]}"


def _compute_rates(request: Request, batch: int) -> dict[str, float]:
    """Map rules to learning rates; none if the job's is not known."""
    if request.rate is None:
        return {}
    return {rule: scale_learning_rate(request.rate, request.batch, batch, rule) for rule in RULES}


def as_dict(request: Request, found: Sequence[Found]) -> dict[str, Any]:
    """Return a value for JSON: bytes and seconds."""
    return {
        "hyperparameter": request.batch_name,
        "batch": request.batch,
        "margin": request.margin,
        "folder": str(request.job.folder),
        "modes": [
            {
                "mode": each.mode,
                "recommended_batch": each.batch,
                "limited_by": each.limit or None,
                "learning_rate": _compute_rates(request, each.batch) or None,
                "trials": [_trial_as_dict(trial) for trial in each.trials],
            }
            for each in found
        ],
    }


def _trial_as_dict(trial: Trial) -> dict[str, Any]:
    return {
        "batch": trial.batch,
        "outcome": trial.outcome,
        "peak_bytes": trial.peak,
        "steady_peak_bytes": trial.steady,
        "limit_bytes": trial.limit,
        "memory_of": "device" if trial.on_device else "host",
        "step_seconds": trial.step_seconds,
        "reason": trial.reason or None,
    }
