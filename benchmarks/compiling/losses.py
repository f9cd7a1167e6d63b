"""Whether a compiled training's losses are those of the eager one: how far apart they may be, by dtype. Pure.

Each step makes a rounding error larger, so that the losses of two eager trainings part as well, if one computes with
another number of threads. How far is measured: by a third one, eager too, whose first weights are off by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

# Largest difference over the steps, as a share of the largest eager loss. bfloat16 keeps 8 bits: 2 ** -8 is 0.004.
TOLERANCES = {"fp32": 1e-3, "bf16": 2e-2}
# Times what rounding alone had done until the same step. It does another thing in each training: eager on one thread
# was 3.8 times as far from eager on two as one whose weights were off by rounding (ResNet, 60 steps on a CPU).
MARGIN = 4.0


class LossError(ValueError):
    """Losses that cannot be compared; its text says which."""


@dataclass(frozen=True)
class Difference:
    """Of a training from the eager one, as a share of the largest eager loss."""

    largest: float
    rounding: float  # the largest that rounding alone makes; 0 where it was not measured
    steps: int  # that were compared
    wrong_step: int = 0  # the first one that differs by more than it may; 0 if none does


def compare(eager: Sequence[float], other: Sequence[float], rounded: Sequence[float], dtype: str) -> Difference | None:
    """Compare the steps that all have; `rounded` are the losses of the third training, [] if there was none.

    None if eager or other has no losses. Raises LossError for a loss that is not a finite number.
    """
    steps = min(len(eager), len(other), len(rounded) or len(eager))
    if not steps:
        return None
    scale = max(abs(loss) for loss in finite("eager", eager[:steps])) or 1.0
    apart = [abs(one - two) / scale for one, two in zip(eager, finite("compiled", other[:steps]), strict=False)]
    rounding = [abs(one - two) / scale for one, two in zip(eager, finite("rounded", rounded[:steps]), strict=False)]
    until = list(accumulate(rounding or [0.0] * steps, max))
    allowed = [max(TOLERANCES[dtype], MARGIN * each) for each in until]
    wrong = (step for step, (each, most) in enumerate(zip(apart, allowed, strict=True), start=1) if each > most)
    return Difference(max(apart), until[-1], steps, next(wrong, 0))


def finite(name: str, losses: Sequence[float]) -> Sequence[float]:
    for step, loss in enumerate(losses, start=1):
        if not math.isfinite(loss):
            raise LossError(f"{name}: the loss of step {step} is {loss}")
    return losses


def is_same(difference: Difference | None) -> bool:
    """Return whether no step differs by more than it may; true if none were compared."""
    return difference is None or not difference.wrong_step


def verdict(difference: Difference | None, dtype: str) -> str:
    """Return the words for a table: the difference beside what is allowed."""
    if difference is None:
        return "not compared"
    allowed = f"{TOLERANCES[dtype]:g}"
    if MARGIN * difference.rounding > TOLERANCES[dtype]:
        allowed += f", or {MARGIN:g} times what rounding alone makes, {difference.rounding:.1e}"
    if difference.wrong_step:
        return f"DIFFER from step {difference.wrong_step} on: {difference.largest:.1e}, expected at most {allowed}"
    return f"{difference.largest:.1e} (at most {allowed})"
