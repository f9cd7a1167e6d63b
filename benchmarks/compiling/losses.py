"""Whether a compiled training's losses are those of the eager one: how far apart they may be, by dtype. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Largest difference over the steps, as a share of the largest eager loss. bfloat16 keeps 8 bits: 2 ** -8 is 0.004.
TOLERANCES = {"fp32": 1e-3, "bf16": 2e-2}


class LossError(ValueError):
    """Losses that cannot be compared; its text says which."""


def largest_difference(eager: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the largest difference of the steps that both have, as a share of the largest eager loss.

    None if one of them has no losses. Raises LossError for a loss that is not a finite number.
    """
    pairs = list(zip(eager, other, strict=False))
    if not pairs:
        return None
    for name, losses in (("eager", eager), ("compiled", other)):
        for step, loss in enumerate(losses[: len(pairs)], start=1):
            if not math.isfinite(loss):
                raise LossError(f"{name}: the loss of step {step} is {loss}")
    scale = max(abs(one) for one, _ in pairs)
    return max(abs(one - two) for one, two in pairs) / (scale or 1.0)


def is_same(difference: float | None, dtype: str) -> bool:
    """Return whether the losses are within the dtype's tolerance; true if none were compared."""
    return difference is None or difference <= TOLERANCES[dtype]


def verdict(difference: float | None, dtype: str) -> str:
    """Return the words for a table: the difference beside what is allowed."""
    if difference is None:
        return "not compared"
    allowed = f"{TOLERANCES[dtype]:g}"
    if is_same(difference, dtype):
        return f"{difference:.1e} (at most {allowed})"
    return f"DIFFER: {difference:.1e}, expected at most {allowed}"
