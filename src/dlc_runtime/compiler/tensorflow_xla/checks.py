"""When the steps of a way are compared with steps without XLA: at each new shape, later now and then. Pure."""

from __future__ import annotations

import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

# What comparing again may take: this share of the job so far, at least these seconds.
SHARE, AT_LEAST = 0.002, 0.6
# Steps to the next comparison, after the first ones at 2, 4, 8, ...
MOST_BETWEEN = 2000
ALLOWED = "compare"


class Checks:
    """The comparisons of one way of a function. `tell`: of several processes, tells a text and returns those of all."""

    def __init__(self, seed: int, tell: Callable[[str], list[str]] | None = None) -> None:
        self.shapes: set[tuple[str, ...] | None] = set()
        # Variables whose change is nothing but rounding.
        self.noise: set[int] = set()
        # Comparisons in which nothing was trained.
        self.idle = 0
        self.last_good = 0  # step of the function
        self.steps = 0  # of this way
        self.seconds = 0.0
        self._cost = 0.0
        self._next = 2
        self._random = random.Random(seed)  # noqa: S311 - which step is no secret
        self._tell = tell

    def is_due(self, elapsed: float) -> bool:
        """Count a step of a shape that was compared before; tell whether it is compared again.

        Of several processes all are at the same step, and none compares alone: the others would wait.
        """
        self.steps += 1
        if self.steps < self._next:
            return False
        allowed = self.seconds + self._cost <= max(AT_LEAST, SHARE * elapsed)
        if self._tell is not None:
            allowed = set(self._tell(ALLOWED if allowed else "")) == {ALLOWED}
        self._plan()
        return allowed

    def add(self, seconds: float, again: float) -> None:
        """Add what a comparison took. Those before the first step are a part of compiling. `again`: a later one's."""
        if self.steps:
            self.seconds += seconds
        self._cost = again

    def _plan(self) -> None:
        power = 1 << self.steps.bit_length()
        self._next = min(power, self.steps + self._random.randint(1, MOST_BETWEEN))
