"""Splits a training loop's time in waiting and computing. Imports no framework."""

from __future__ import annotations

import time
from collections import deque
from statistics import median

from dlc_runtime.profile.fetches import KEPT_FETCHES, Asleep, Fetches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

KEPT = 10000  # steps for the median
# Parts of one batch whose bytes are counted.
FEW = 50
# Batches of another loader within one step; more are a loop of their own, such as an evaluation.
MOST_INNER = 2


class Clock:
    """Shared by the meters of a process: how long all of them have waited, and how often."""

    def __init__(
        self,
        settle: Callable[[], None],
        now: Callable[[], float] = time.perf_counter,
        compilations: Callable[[], int] = lambda: 0,
        queued: Callable[[], float | None] = lambda: None,
    ) -> None:
        # Waits until the accelerator has done what it was given.
        self.settle = settle
        self.now = now
        # Seconds that this thread has stood in line for a processor; None: unknown.
        self.queued = queued
        # A number that changes when something is compiled.
        self.compilations = compilations
        self.waited = 0.0
        self.waits = 0


class Meter:
    """The time of one loader. A step begins when it gets a batch and ends when it asks for the next one."""

    def __init__(self, clock: Clock, skip: int) -> None:
        self._clock, self._skip = clock, skip
        self.waiting = self.computing = self.starting = self.compiling = 0.0
        # Seconds of the waiting in which the training thread itself stood in line for a processor.
        self.queued = 0.0
        self.batch_bytes = 0.0
        self.in_process = Fetches()
        # Seconds of each batch that this process fetched, without those in line for a processor.
        self.durations: deque[float] = deque(maxlen=KEPT_FETCHES)
        self.workers: set[int] = set()
        self.asleep = Asleep()
        self.most_workers = 0
        # Whether the loader prepares several batches at a time; None: unknown.
        self.parallel: bool | None = None
        self._steps: deque[float] = deque(maxlen=KEPT)
        # Steps that count, and steps in which something was compiled, which do not.
        self.steps = self.compiled_steps = 0
        self._compilations = 0
        self._asked = self._got = 0.0
        self._fresh = True
        self._pending = False
        self._wait = 0.0
        self._line: float | None = None
        self._wait_queued = 0.0
        self._others = (0.0, 0)

    def ask(self, *, settled: bool = False) -> None:
        """Note that the loop wants a batch. With `settled` the accelerator has already done the step."""
        # The last one was not there: an iteration ended inside of a graph.
        if self._pending:
            self.leave()
        self._pending = True
        if not self._fresh and not settled:
            self._clock.settle()
        self._asked = self._clock.now()
        if not self._fresh:
            self._end_step()
        self._line = self._clock.queued()

    def got(self, batch: Any) -> None:
        """Note that the loop has its batch."""
        self._pending = False
        self._got = self._clock.now()
        self._wait = self._got - self._asked
        line = self._clock.queued()
        self._wait_queued = max(line - self._line, 0.0) if line is not None and self._line is not None else 0.0
        self._clock.waited += self._wait
        self._clock.waits += 1
        if self._fresh:  # workers were started
            self.starting += self._wait
            self._wait = 0.0
            self._fresh = False
        if not self.batch_bytes:
            self.batch_bytes = float(batch_bytes(batch))
        self._others = (self._clock.waited, self._clock.waits)
        self._compilations = self._clock.compilations()

    def add_fetch(self, fetch: Fetches) -> None:
        """Add a batch that this process fetched itself; the first also opens files and fills caches."""
        if self.in_process.batches:
            self.durations.append(fetch.asleep_or_computing)
        self.in_process = self.in_process.plus(fetch)

    def leave(self) -> None:
        """End the iteration: the next batch is that of a new one."""
        self._fresh = True
        self._pending = False

    def _end_step(self) -> None:
        waited, waits = self._clock.waited - self._others[0], self._clock.waits - self._others[1]
        if waits > MOST_INNER:
            return
        if self._skip:
            self._skip -= 1
            return
        computed = self._asked - self._got - waited
        if self._clock.compilations() != self._compilations:
            self.compiled_steps += 1
            self.compiling += computed
            return
        self.steps += 1
        self._steps.append(computed)
        self.computing += computed
        self.waiting += self._wait + waited
        self.queued += min(self._wait_queued, self._wait)

    @property
    def step(self) -> float:
        return median(self._steps) if self._steps else 0.0


def batch_bytes(value: Any, left: int = FEW) -> int:
    """Count bytes of the tensors and arrays in a batch, however they are nested."""
    if left <= 0:
        return 0
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return sum(batch_bytes(part, left - index) for index, part in enumerate(value[:left]))
    if isinstance(value, (bytes, str)):
        return len(value)
    found = getattr(value, "nbytes", None)
    if isinstance(found, int):
        return found
    if hasattr(value, "element_size") and hasattr(value, "nelement"):  # tensors of torch before 2.1
        return int(value.element_size() * value.nelement())
    if hasattr(value, "shape") and hasattr(value.shape, "num_elements"):  # tensors of TensorFlow
        return int((value.shape.num_elements() or 0) * value.dtype.size)
    if hasattr(value, "__dict__") and left > 1:
        return batch_bytes({k: v for k, v in vars(value).items() if not k.startswith("_")}, left - 1)
    return 0
