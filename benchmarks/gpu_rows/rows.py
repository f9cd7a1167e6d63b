"""A row: one measurement in processes of its own, with the seconds that it needs and the bound that ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from gpu_rows.processes import RowError

MEASURED, FAILED, LEFT_OUT = "measured", "failed", "left out"


@dataclass(frozen=True)
class Result:
    """What became of a row. `why` says it of one that failed or was left out."""

    name: str
    state: str
    seconds: float = 0.0
    why: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Row(NamedTuple):
    """`needs`: seconds without which it does not begin. `bound`: seconds after which it is ended.

    `measure` is told the bound and returns the figures; it raises RowError.
    """

    name: str
    needs: float
    bound: float
    measure: Callable[[float], Mapping[str, Any]]
    lacks: str = ""  # why it cannot run on this host


def result_of(row: Row, left: float) -> Result:
    """Run a row that fits into the `left` seconds; say of any other one why it was left out."""
    if row.lacks:
        return Result(row.name, LEFT_OUT, why=row.lacks)
    if left < row.needs:
        return Result(row.name, LEFT_OUT, why=f"needs {row.needs:.0f} s, {max(left, 0.0):.0f} s were left")
    begun = time.monotonic()
    try:
        figures = row.measure(min(row.bound, left))
        check_numbers(figures, "")
    except RowError as fault:
        return Result(row.name, FAILED, time.monotonic() - begun, str(fault))
    except (OSError, ValueError, KeyError) as fault:  # a process that ended well and wrote something else
        return Result(row.name, FAILED, time.monotonic() - begun, f"{type(fault).__name__}: {fault}")
    return Result(row.name, MEASURED, time.monotonic() - begun, figures=figures)


def check_numbers(value: Any, name: str) -> None:
    """Raise RowError for a figure that is not a finite number."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            check_numbers(each, f"{name} {key}".strip())
    elif isinstance(value, list):
        for place, each in enumerate(value, start=1):
            check_numbers(each, f"{name} {place}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise RowError(f"{name} is {value}, expected a finite number")
