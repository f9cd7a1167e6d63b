"""Compares two ways by blocks of steps that took turns: the speed-up with its interval; pure.

A pair is one block of steps of each way, run one after the other, so that what else the host does cancels out. The
interval is the sign test's: order statistics of the pairs' ratios. It assumes nothing of how the times are spread,
and a minority of pairs that hold an evaluation or another program's burst does not move it.
"""

from __future__ import annotations

from math import comb
from statistics import median
from typing import NamedTuple, Optional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Share of the base way's speed: less is no difference.
BAND = 0.03
# With fewer no interval of 95 % exists: one side of it is 1 of 2 ** 6.
FEWEST_PAIRS = 6
# Chance that the true ratio lies beyond one end of the interval.
TAIL = 0.025
FASTER, SLOWER, SAME, UNDECIDED, TOO_FEW = "faster", "slower", "same", "undecided", "too few"


class Pair(NamedTuple):
    """Seconds of a step of each way, over one block each."""

    base: float
    other: float


class Verdict(NamedTuple):
    """How many times as fast as the base way the other one is: `low` to `high` with 95 % of confidence."""

    # FASTER, SLOWER, SAME (as fast within the band), UNDECIDED or TOO_FEW.
    kind: str
    pairs: int
    low: Optional[float] = None  # noqa: UP045 - evaluated at run time, by Python 3.9 too
    high: Optional[float] = None  # noqa: UP045
    middle: Optional[float] = None  # noqa: UP045

    @property
    def is_sure(self) -> bool:
        return self.kind in (FASTER, SLOWER, SAME)

    def words(self) -> str:
        """Say it of the other way, such as "1.31 to 1.42 times as fast"."""
        if self.low is None or self.high is None:
            return f"too few steps to tell ({self.pairs} of at least {FEWEST_PAIRS} pairs of blocks)"
        interval = f"{self.low:.2f} to {self.high:.2f}"
        if self.kind in (FASTER, SLOWER):
            return f"{interval} times as fast"
        return f"no difference could be seen ({interval}, {self.pairs} pairs)"


def judge(pairs: Sequence[Pair]) -> Verdict:
    ratios = sorted(pair.base / pair.other for pair in pairs if pair.base > 0 and pair.other > 0)
    count = len(ratios)
    if count < FEWEST_PAIRS:
        return Verdict(TOO_FEW, count, middle=median(ratios) if ratios else None)
    left_out = outside(count)
    low, high = ratios[left_out], ratios[count - 1 - left_out]
    return Verdict(kind_of(low, high), count, low, high, median(ratios))


def kind_of(low: float, high: float) -> str:
    if low > 1 + BAND:
        return FASTER
    if high < 1 - BAND:
        return SLOWER
    return SAME if low >= 1 - BAND and high <= 1 + BAND else UNDECIDED


def outside(count: int) -> int:
    """Return how many ratios at each end lie outside the interval: the most whose chance is at most TAIL."""
    chance, beyond = 0.0, 0
    while True:
        chance += comb(count, beyond) / 2**count
        if chance > TAIL:
            return max(beyond - 1, 0)
        beyond += 1
