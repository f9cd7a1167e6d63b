"""What is known of each way of a training's steps: blocks that were measured, their cost, and the outcome. Pure."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple, Optional

from dlc_runtime.compiler.choosing.verdict import FEWEST_PAIRS, Pair, Verdict, judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


EAGER = "eager"
# Speed is looked at once in so many steps after the decision.
WINDOW_STEPS = 200


class Block(NamedTuple):
    """Steps in a row of one way."""

    way: str
    # Steps at the start: the first after a switch finds other caches and memory.
    skipped: int
    steps: int  # that are measured then


class Result(NamedTuple):
    """What a block showed."""

    seconds: Optional[float]  # noqa: UP045 - of one measured step
    took: float  # seconds of all its steps
    # Seconds; not 0 if anything was compiled.
    compiling: float = 0.0
    # Why the way cannot be used: its steps ran eager in its place.
    failed: str = ""
    # Seconds of the job so far.
    elapsed: float = 0.0
    # The last one of the block.
    step: int = 0
    # Bytes of the device's memory that tensors took at most.
    memory: int = 0
    # Hash of the shapes of its first batch, 0 if they are not known.
    shapes: int = 0
    # Seconds that the job would wait for the next way if it began now.
    expected: float = 0.0


class Budget(NamedTuple):
    """What choosing may cost beyond eager steps: this share of the job so far, at least these seconds."""

    seconds: float = 60.0
    share: float = 0.05

    def allows(self, spent: float, elapsed: float, expected: float = 0.0) -> bool:
        """Tell whether something may begin that takes about `expected` seconds."""
        limit = self.limit(elapsed)
        return spent < limit and spent + expected <= limit

    def limit(self, elapsed: float) -> float:
        return max(self.seconds, self.share * elapsed)


class Spent:
    """Seconds that all choices of a job have cost beyond what the best ways would have taken."""

    def __init__(self) -> None:
        self.seconds = 0.0


class Candidate:
    """One way, and what is known of it."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.steps = 0
        self.blocks: list[float] = []  # seconds of a step
        self.compile_seconds = 0.0
        self.memory = 0
        self.against = EAGER
        self.verdict: Verdict | None = None
        # Seconds of a step in the pairs of the verdict: of the way that it was compared with, and its own.
        self.paired: tuple[float, float] | None = None
        # How its results were compared with eager's.
        self.compared = ""
        self.outcome = ""
        # Why it is not tried again.
        self.refused = ""
        # It is to be tried as soon as the budget allows it.
        self.is_due = False
        self.was_begun = self.was_measured = False
        # Blocks in which it was compiled before it could be measured.
        self.thrown = 0

    def note(self, block: Block, result: Result) -> None:
        # While something is compiled, eager runs too, and what the compiler tries out.
        if not result.compiling:
            self.memory = max(self.memory, result.memory)
        self.compile_seconds += result.compiling
        if result.failed and self.way != EAGER:
            self.refused = result.failed
            self.outcome = f"left: {result.failed}"
        elif result.seconds is not None and not result.compiling and block.steps < WINDOW_STEPS:
            self.steps += block.steps
            self.blocks.append(result.seconds)

    @property
    def seconds(self) -> float | None:
        return median(self.blocks) if self.blocks else None

    def judge(self, pairs: list[Pair], against: str) -> Verdict:
        """Compare it with another way, by the pairs of blocks so far."""
        self.verdict, self.against = judge(pairs), against
        if len(pairs) >= FEWEST_PAIRS:
            self.paired = median(pair.base for pair in pairs), median(pair.other for pair in pairs)
        return self.verdict

    def forget(self, against: str) -> None:
        """Forget what it was compared with before, because it is compared anew."""
        self.verdict, self.paired, self.against, self.blocks = None, None, against, []

    @property
    def is_waiting(self) -> bool:
        """Tell whether it is to be tried; it may have been refused since, together with another."""
        return self.is_due and not self.refused

    def line(self) -> str:
        """Return the log's line about a candidate: what is known of it, and why it was taken or left."""
        known = [f"{self.steps} steps"] if self.steps else []
        if self.verdict and self.verdict.low and self.paired:
            base, own = self.paired
            known.append(f"{1000 * own:.1f} ms a step beside {1000 * base:.1f} ms of {self.against}")
            known.append(self.verdict.words())
        known.append(f"compiling {self.compile_seconds:.1f} s")
        if self.memory:
            known.append(f"{self.memory / 2**30:.1f} GiB")
        return f"{self.way}: {', '.join(known)}: {self.outcome}"

    def as_json(self) -> dict[str, Any]:
        found = self.verdict
        return {
            "way": self.way,
            "steps": self.steps,
            "seconds": self.seconds,
            "paired_seconds": list(self.paired) if self.paired else None,
            "compile_seconds": round(self.compile_seconds, 6),
            "memory_bytes": self.memory,
            "against": self.against if found else "",
            "pairs": found.pairs if found else 0,
            "low": found.low if found else None,
            "high": found.high if found else None,
            "verdict": found.words() if found else "",
            "compared": self.compared,
            "outcome": self.outcome,
        }


def slowest(results: Iterable[Result]) -> Result:
    """Return what the ranks showed together: the job is as fast as its slowest rank."""
    found = list(results)
    seconds = [result.seconds for result in found]
    return Result(
        seconds=None if None in seconds else max(value for value in seconds if value is not None),
        took=max(result.took for result in found),
        compiling=max(result.compiling for result in found),
        failed=next((result.failed for result in found if result.failed), ""),
        elapsed=max(result.elapsed for result in found),
        step=max(result.step for result in found),
        memory=max(result.memory for result in found),
        shapes=found[0].shapes,
        expected=max(result.expected for result in found),
    )
