"""Compares what a step returns, and what it makes of variables, element by element; NumPy only.

A step changes variables by gradients, so a wrong gradient shows in what changed: in the variable, and in what the
optimizer keeps of it (Adam's first moment is a tenth of the gradient).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

# Largest difference of an element, as a share of the tensor's largest value or change.
TOLERANCES = {"float64": 1e-6, "float32": 2e-3, "float16": 1e-2, "bfloat16": 5e-2}
EPSILONS = {"float64": 2.3e-16, "float32": 1.2e-7, "float16": 1e-3, "bfloat16": 7.9e-3}
# A difference that all elements share: rounding goes both ways and cancels out, so less of it is allowed. In 16 bits it
# does not: the rounding of a prediction scales the whole gradient.
SHARED = 0.15
# Rounding errors that each of the two ways may make in the last step of its arithmetic.
ROUNDINGS = 4
# Eager itself runs with its variables off by so many rounding errors, to see which elements that changes.
OFF_BY = 16
# So many times more elements than in eager itself may differ, by so many times more.
NOISIER, LARGER = 3, 10
# A variable is noise if this share of its elements is.
NOISE = 0.5


class DifferentError(Exception):
    """What the way computes is not what eager computes."""


class NotComparableError(Exception):
    """Nobody can tell whether the way computes what eager computes."""


class Pass(NamedTuple):
    """What a step returned, and the variables after it."""

    outputs: Sequence[Any]
    variables: Sequence[Any]


class Difference(NamedTuple):
    """How far one tensor is off. `off`: of each element, as a share of the largest value or change."""

    largest: float
    # Of all elements in the direction of eager's: a gradient that is 1 % too long is 0.01.
    shared: float
    elements: int
    off: Any

    def exceeds(self, allowed: float) -> bool:
        cancels = allowed <= TOLERANCES["float32"]
        share = max(SHARED, self.elements**-0.5) if cancels and self.elements else 1.0
        return not (self.largest <= allowed and self.shared <= allowed * share)

    @property
    def worst(self) -> float:
        return max(self.largest, self.shared)


def compare_outputs(eager: Any, other: Any) -> Difference:
    """Compare values that a step returned."""
    eager, other = np.asarray(eager), np.asarray(other)
    if eager.shape != other.shape or eager.dtype != other.dtype:
        raise DifferentError(f"it returns {other.dtype}{list(other.shape)}, eager {eager.dtype}{list(eager.shape)}")
    if not is_real(eager):
        return compare_exactly(eager, other)
    return measure(eager, other, np.zeros((), eager.dtype))


def compare_changes(before: Any, eager: Any, other: Any) -> Difference:
    """Compare what two passes made of a variable."""
    before, eager, other = np.asarray(before), np.asarray(eager), np.asarray(other)
    if not is_real(eager) or eager.shape != before.shape:
        return compare_exactly(eager, other)
    return measure(eager, other, before)


def rebase(before: Any, shifted: Any, after: Any) -> Any:
    """Return what a variable would be if the change that was seen from `shifted` on had begun at `before`."""
    before, after = np.asarray(before), np.asarray(after)
    if not is_real(after) or after.shape != before.shape:
        return after
    return before.astype(np.float64) + (after.astype(np.float64) - np.asarray(shifted).astype(np.float64))


def allowed_difference(formats: Iterable[str]) -> float:
    """Return the tolerance of the least exact number format that takes part."""
    return max((TOLERANCES[known] for known in formats if known in TOLERANCES), default=TOLERANCES["float32"])


def is_real(values: Any) -> bool:
    return values.dtype.name in EPSILONS


def compare_exactly(eager: Any, other: Any) -> Difference:
    same_shape = eager.shape == other.shape
    off = np.atleast_1d(eager != other).ravel().astype(np.float32) if same_shape else np.ones(1, np.float32)
    return Difference(float(off.max(initial=0.0)), 0.0, off.size, off)


def measure(eager: Any, other: Any, before: Any) -> Difference:
    """Measure the difference as a share of what became of `before`, beyond what rounding makes of such numbers."""
    rounding = ROUNDINGS * EPSILONS[eager.dtype.name] * bool(before.any())
    exact = np.float64 if eager.dtype.name == "float64" else np.float32
    eager, other, before = (np.atleast_1d(values).astype(exact).ravel() for values in (eager, other, before))
    finite = np.isfinite(eager)
    if not np.array_equal(finite, np.isfinite(other)):
        return Difference(float("inf"), float("inf"), eager.size, (finite != np.isfinite(other)).astype(np.float32))
    eager, other = np.where(finite, eager, 0), np.where(finite, other, 0)
    change = eager - np.where(np.isfinite(before), before, 0)
    error = other - eager
    error = np.sign(error) * np.maximum(np.abs(error) - rounding * np.abs(eager), 0)
    largest = float(np.abs(change).max(initial=0.0))
    if not largest:
        off = (error != 0).astype(np.float32)
        return Difference(float("inf") if off.any() else 0.0, 0.0, eager.size, off)
    # Divided first: squares of small numbers are no numbers of this format.
    change, error = change / largest, error / largest
    length = float(np.dot(change, change))
    return Difference(float(np.abs(error).max()), abs(float(np.dot(error, change))) / length, eager.size, np.abs(error))


def is_as_noisy(found: Difference, noise: Difference, allowed: float) -> bool:
    """Tell whether eager differs as much from itself if its variables are off by some rounding errors."""
    limit = max(allowed, LARGER * noise.largest)
    noisy = int((noise.off > allowed).sum())
    return bool(noisy) and found.largest <= limit and int((found.off > allowed).sum()) <= NOISIER * noisy + 1


def is_noise(noise: Difference, allowed: float) -> bool:
    return bool((noise.off > allowed).mean() >= NOISE)


def move(values: Any, seed: int) -> Any:
    """Return values that are off by some rounding errors."""
    values = np.asarray(values)
    if not is_real(values):
        return values
    epsilon = EPSILONS[values.dtype.name] * (OFF_BY if values.dtype.itemsize > 2 else 1)
    signs = np.random.default_rng(seed).integers(0, 2, values.shape) * 2 - 1
    return (values.astype(np.float64) * (1 + epsilon * signs)).astype(values.dtype)
