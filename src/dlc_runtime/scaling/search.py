"""The largest batch that fits, in few trials: doubles until one does not fit, then halves the gap. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FINE = 16  # a gap of a sixteenth of the batch that fits is not looked into: it is less than the margin


def largest_that_fits(first: int, most: int, fits: Callable[[int], bool], fine: int = FINE) -> int:
    """The largest batch from 1 to `most` for which `fits` said yes; 0 where it said no to 1.

    It begins with `first`, asks for no batch twice, and takes it that a batch above one that does not fit does not
    fit either. With `fine` of 0 the answer is exact; else up to a `fine`th of it may have been left.
    """
    if not 1 <= first <= most:
        raise ValueError(f"first: expected a batch from 1 to {most}, found {first}")
    good, bad, batch = 0, most + 1, first
    while bad - good > max(good // fine if fine else 1, 1):
        if fits(batch):
            good = batch
        else:
            bad = batch
        batch = _next(good, bad, most)
    return good


def _next(good: int, bad: int, most: int) -> int:
    if bad > most:  # nothing was too large so far
        return min(2 * good, most)
    return (good + bad) // 2 if good else max(bad // 2, 1)
