"""What dlc_runtime costs a job that compiles nothing: the same environment with its line and without it, in pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from compiling.figures import Row
from compiling.runs import Pythons, clean, run

FEWEST = 6  # pairs: all of fewer than these differ one way by chance more often than once in 20

STEPS = """
import time, torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
optimizer = torch.optim.AdamW(model.parameters())
batch, seconds = torch.randn(64, 256), []
for step in range(400):
    started = time.perf_counter()
    model(batch).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
    seconds.append(time.perf_counter() - started)
print("seconds", sorted(seconds)[len(seconds) // 2])
"""


@dataclass(frozen=True)
class Paired:
    """Seconds of each pair: with the line and without it."""

    name: str
    pairs: list[tuple[float, float]]

    @property
    def interval(self) -> tuple[float, float]:
        return interval([mine - other for mine, other in self.pairs])

    @property
    def row(self) -> Row:
        """The goal: no difference of which the pairs are sure; a few pairs are sure of nothing."""
        low, high = self.interval
        enough = len(self.pairs) >= FEWEST
        told = f"95%: {low * 1e6:+.0f} to {high * 1e6:+.0f} us" if enough else f"expected {FEWEST} pairs or more"
        mine, other = (median(side) for side in zip(*self.pairs, strict=True))
        return Row(
            self.name, mine * 1000, "without the library", other * 1000, "ms", f"no sure difference ({told})",
            low <= 0 if enough else None, len(self.pairs),
        )  # fmt: skip


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Between which values the median lies, with 95%: by the order of the values alone (the sign test)."""
    ordered = sorted(differences)
    count = len(ordered)
    outside, ways, left = 0.0, 1.0, 0
    for place in range(count // 2):  # how improbable it is that so few lie on one side
        outside += ways / 2**count
        if outside > 0.025:
            break
        left = place
        ways = ways * (count - place) / (place + 1)
    return ordered[left], ordered[count - 1 - left]


def starts(pythons: Pythons, count: int) -> Paired:
    def start(python: Path) -> float:
        argv, environ = [str(python), "-c", "pass"], clean({})
        begun = time.perf_counter()
        run(argv, environ, "a start of python")
        return time.perf_counter() - begun

    return paired("a start of python, compiler off", pythons, count, start)


def steps(pythons: Pythons, count: int) -> Paired:
    def step(python: Path) -> float:
        output = run([str(python), "-c", STEPS], clean({}), "steps of PyTorch")
        return float(output.split("seconds")[1])

    return paired("a step of PyTorch, compiler off", pythons, count, step)


def paired(name: str, pythons: Pythons, count: int, measure: Callable[[Path], float]) -> Paired:
    """The first of a pair is another one each time; a pair before counts for nothing."""
    measure(pythons.with_line), measure(pythons.without)
    pairs = []
    for place in range(count):
        if place % 2:
            other = measure(pythons.without)
            pairs.append((measure(pythons.with_line), other))
        else:
            pairs.append((measure(pythons.with_line), measure(pythons.without)))
    return Paired(name, pairs)
