"""Measures a loop over any iterable of batches."""

from __future__ import annotations

import sys
import time

from dlc_runtime.profile import arm
from dlc_runtime.profile.fetches import Fetches, cpu_seconds
from dlc_runtime.profile.session import Framework, current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")


def watched(batches: Iterable[T]) -> Iterator[T]:
    """What has a way of its own to be measured is measured in that way, and not twice."""
    for name in arm.WATCHED:
        if name in sys.modules:
            arm.patch(sys.modules[name])
    if type(batches).__module__.partition(".")[0] in ("torch", "tensorflow"):
        yield from batches
        return
    session = current(Framework())
    meter = session.meter_of(batches)
    iterator = iter(batches)
    while not session.over:
        meter.ask()
        session.after_step()
        cpu, began = cpu_seconds(), time.perf_counter()
        try:
            batch = next(iterator)
        except StopIteration:
            meter.leave()
            return
        meter.in_process = meter.in_process.plus(Fetches(1, cpu_seconds() - cpu, time.perf_counter() - began))
        meter.got(batch)
        yield batch
    yield from iterator
