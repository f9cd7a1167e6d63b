"""Lets the ways of one function take turns: measures a block of steps and tells the choice of it. Pure."""

from __future__ import annotations

import json
from statistics import median

from dlc_runtime.compiler.choosing.candidates import EAGER, Budget, Result, Spent, slowest
from dlc_runtime.compiler.choosing.choosing import Choosing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable

    # Tells all ranks a text, returns what each of them told.
    Share = Callable[[str], list[str]]
    Peak = Callable[[], int]

# Ways; without XLA a step runs as EAGER, a graph of TensorFlow's.
WHOLE, CLUSTERS = "jit_compile", "auto-clustering"
TOO_OFTEN = "compiled again and again: the shapes of the data change"
NO_ANSWER = "the processes of this training did not answer each other"


class Turns:
    """Says which way the next step runs, and is told of each step.

    `ways`: those to try, in this order. `kept`: the way that a job before took and the words for it. `share`: if
    several processes train one model; all run the same way at the same step, by what the slowest of them measured.
    `spent`: what the job's functions have spent of their one budget.
    """

    def __init__(
        self,
        ways: Sequence[str],
        budget: Budget,
        eager_steps: int,
        kept: tuple[str, str] = ("", ""),
        share: Share | None = None,
        spent: Spent | None = None,
    ) -> None:
        self.choosing = Choosing(ways, budget, eager_steps, kept, spent)
        self._share = share
        self._begin_block()

    def _begin_block(self) -> None:
        self._ran = 0
        self._took = self._compiling = 0.0
        self._memory = 0
        self._measured: list[float] = []
        self._failed = ""

    @property
    def way(self) -> str:
        return EAGER if self._failed else self.choosing.block.way

    def refuse(self, reason: str) -> None:
        """Run the block's rest without XLA: its way cannot be used."""
        self._failed = self._failed or reason

    def add(
        self, seconds: float, changed: bool, elapsed: float, step: int, peak: Peak = int, aside: bool = False
    ) -> None:
        """Add a step. `changed`: it traced or compiled something. `elapsed`: seconds of the job, `step`: its last.

        `aside`: it ran both ways. `peak` returns the most bytes since the last call. A step without XLA that was traced
        anew is left out of its block; a block of compiled ones counts for nothing if one was made anew.
        """
        block = self.choosing.block
        # After the choice it is the script's.
        memory = 0 if self.choosing.decided_at else peak()
        self._ran += 1
        self._took += seconds
        if changed:
            self._compiling += 0.0 if block.way == EAGER else seconds
        elif self._ran > block.skipped and not aside:
            self._measured.append(seconds)
            self._memory = max(self._memory, memory)
        if self._ran >= block.skipped + block.steps:
            self._end_block(elapsed, step)

    def _end_block(self, elapsed: float, step: int) -> None:
        seconds = median(self._measured) if self._measured else None
        result = self._agreed(Result(seconds, self._took, self._compiling, self._failed, elapsed, step, self._memory))
        # Another way would not do better.
        if result.failed in (TOO_OFTEN, NO_ANSWER):
            for candidate in self.choosing.candidates.values():
                if candidate.way != EAGER:
                    candidate.refused, candidate.outcome = result.failed, f"left: {result.failed}"
        self.choosing.end_block(result)
        self._begin_block()

    def _agreed(self, own: Result) -> Result:
        if self._share is None:
            return own
        try:
            return slowest([Result(*json.loads(text)) for text in self._share(json.dumps(own))])
        except Exception:
            # A process ended, or trains otherwise.
            self._share = None
            return own._replace(failed=NO_ANSWER)
