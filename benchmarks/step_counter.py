"""What counting a step costs: training with and without it, in turns, in one process; prints a table.

usage: python benchmarks/step_counter.py [--pairs N]     in an image with PyTorch, as its own Python

A pair is a block of steps with the hooks of dlc_runtime/steps and one without, each first in turns. Steps take about
1, 3 and 30 ms: a matrix product of that length, a batch of a DataLoader and a step of SGD.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
MILLISECONDS = (1, 3, 30)
BLOCK_SECONDS = 0.6
# Steps before the first block
WARM_UP = 50


class Hooks:
    """The hooks of the step counter, which can be taken out and put back."""

    def __init__(self) -> None:
        os.environ["DLC_STEPS_DIR"] = tempfile.mkdtemp()
        importlib.import_module("dlc_runtime.steps.import_hook")  # before torch
        import torch
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        self.torch: Any = torch
        self._registered = optimizer._global_optimizer_post_hooks
        self._kept = dict(self._registered)
        self._iterator: Any = dataloader._BaseDataLoaderIter
        self._counted = self._iterator.__next__

    def use(self, counts: bool) -> None:
        self._registered.clear()
        if counts:
            self._registered.update(self._kept)
        self._iterator.__next__ = self._counted if counts else self._counted.__wrapped__


class Training:
    """A loop whose step takes about so many seconds."""

    def __init__(self, torch: Any, seconds: float) -> None:
        self._model = torch.nn.Linear(8, 8)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._batches = self._endless(torch.utils.data.DataLoader(torch.ones(4096, 8), batch_size=4))
        self._times = 1
        self._matrix = torch.ones(256, 256)
        self.run(WARM_UP)
        while (took := self.run(10) / 10) < seconds:
            self._times = max(self._times + 1, int(self._times * seconds / took))

    @staticmethod
    def _endless(loader: Any) -> Iterator[Any]:
        while True:
            yield from loader

    def run(self, steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            batch = next(self._batches)
            for _ in range(self._times):
                self._matrix @ self._matrix
            self._optimizer.zero_grad()
            self._model(batch).sum().backward()
            self._optimizer.step()
        return time.perf_counter() - begin


def measure(hooks: Hooks, milliseconds: int, pairs: int) -> tuple[float, float, float]:
    """Return milliseconds of a step without, the median share that counting adds, and its quartile range."""
    training = Training(hooks.torch, milliseconds / 1000)
    steps = max(10, int(1000 * BLOCK_SECONDS / milliseconds))
    shares, plain = [], []
    for number in range(pairs):
        took = {}
        for counts in (number % 2 == 0, number % 2 == 1):
            hooks.use(counts)
            took[counts] = training.run(steps) / steps
        shares.append(took[True] / took[False] - 1)
        plain.append(took[False])
    quarters = statistics.quantiles(shares, n=4)
    return 1000 * statistics.median(plain), statistics.median(shares), quarters[2] - quarters[0]


def time_hooks(hooks: Hooks) -> float:
    """Return the microseconds that a step costs more whose work is next to nothing: the least of many blocks."""
    parameter = hooks.torch.nn.Parameter(hooks.torch.zeros(1))
    optimizer = hooks.torch.optim.SGD([parameter], lr=0.1)
    least = {True: 1.0, False: 1.0}
    for _ in range(40):
        for counts in (True, False):
            hooks.use(counts)
            begin = time.perf_counter()
            for _ in range(500):
                optimizer.step()
            least[counts] = min(least[counts], (time.perf_counter() - begin) / 500)
    return 1e6 * (least[True] - least[False])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    asked = parser.parse_args()
    hooks = Hooks()
    hooks.torch.set_num_threads(1)
    micros = time_hooks(hooks)
    print(f"one step: {micros:.2f} us, {micros / 30:.3f} % of 3 ms\n")
    print(f"| a step, ms | counting adds | middle half of {asked.pairs} pairs |\n|---|---|---|")
    for milliseconds in MILLISECONDS:
        took, share, spread = measure(hooks, milliseconds, asked.pairs)
        print(f"| {took:.2f} | {100 * share:+.2f} % | {100 * spread:.2f} % wide |")


if __name__ == "__main__":
    main()
