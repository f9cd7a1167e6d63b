"""Measures loops over a tf.data.Dataset. Its threads work in the training process and have no name of their own.

So what they cost is the process's CPU time without the main thread's: with GPUs that is preprocessing, without them it
holds the training's threads too and is an upper bound.
"""

from __future__ import annotations

import functools
import sys
import time

from dlc_runtime.profile.fetches import Fetches, cpu_seconds
from dlc_runtime.profile.session import Framework, current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

BEGAN = "_dlc_profile_began"


def patch(module: ModuleType) -> None:
    """`module` is tensorflow.python.data.ops.iterator_ops."""
    iterator: Any = module.__dict__["OwnedIterator"]
    iterator.__next__ = _measured_next(iterator.__next__)


class TensorFlow(Framework):
    name = "tensorflow"

    def settle(self) -> None:
        """Before TensorFlow 2.9 nothing says when the devices have done a step."""
        tensorflow: Any = sys.modules.get("tensorflow")
        experimental: Any = getattr(getattr(tensorflow, "test", None), "experimental", None)
        if hasattr(experimental, "sync_devices"):
            experimental.sync_devices()


TENSORFLOW = TensorFlow()


def others_seconds() -> float:
    """CPU seconds of all threads but the one that asks."""
    return cpu_seconds() - time.thread_time()


def _measured_next(original: Any) -> Any:
    spent: dict[int, float] = {}  # meter -> CPU seconds of the other threads when it last asked

    @functools.wraps(original)
    def measured(self: Any) -> Any:
        tensorflow: Any = sys.modules["tensorflow"]
        session = current(TENSORFLOW) if tensorflow.executing_eagerly() else None
        if session is None or session.over:  # inside a tf.function no Python runs when a step does
            return original(self)
        meter = session.meter_of(getattr(self, "_dataset", self))
        if not getattr(self, BEGAN, False):
            setattr(self, BEGAN, True)
            meter.leave()
            spent.pop(id(meter), None)
        meter.ask()
        session.after_step()
        try:
            batch = original(self)
        except BaseException:
            meter.leave()
            raise
        now = others_seconds()
        if id(meter) in spent:
            cpu = max(now - spent[id(meter)], 0.0)
            meter.in_process = meter.in_process.plus(Fetches(1, cpu, cpu))
        spent[id(meter)] = now
        meter.got(batch)
        return batch

    return measured
