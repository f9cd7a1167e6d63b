"""Sees the steps of Keras's `fit`, of Keras 2 and 3, where it calls its callbacks."""

from __future__ import annotations

import functools

from dlc_runtime.steps.counter import EPOCH, EPOCH_BATCH, EPOCH_BATCHES, GLOBAL_STEP, TOTAL_STEPS, ThisProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def patch(module: ModuleType) -> None:
    """Patch the class that calls a model's callbacks, if this is the module that defines it."""
    kind: Any = module.__dict__.get("CallbackList")
    if kind is None or kind.__module__ != module.__name__:
        return
    begin, end = kind.on_epoch_begin, kind.on_train_batch_end

    @functools.wraps(begin)
    def on_epoch_begin(self: Any, epoch: int, logs: Any = None) -> None:
        self._dlc_epoch, self._dlc_batches = epoch, 0
        begin(self, epoch, logs)

    @functools.wraps(end)
    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> None:
        end(self, batch, logs)
        _count(self, int(batch) + 1)

    kind.on_epoch_begin, kind.on_train_batch_end = on_epoch_begin, on_train_batch_end


def _count(callbacks: Any, batches: int) -> None:
    """Count up to this batch of the epoch: with steps_per_execution several come at once."""
    parameters = getattr(callbacks, "params", None) or {}
    length, epochs = parameters.get("steps") or 0, parameters.get("epochs") or 0
    # Keras 3 names a batch behind the last one if the last call had fewer
    batches = min(batches, length or batches)
    new = batches - getattr(callbacks, "_dlc_batches", 0)
    if new <= 0:
        return
    callbacks._dlc_batches = batches
    counter, epoch = ThisProcess.counter, getattr(callbacks, "_dlc_epoch", 0)
    counter.add_steps(new)
    counter.say(EPOCH, epoch + 1)
    counter.say(EPOCH_BATCH, batches)
    counter.say(EPOCH_BATCHES, length)
    if length and epochs:
        counter.say(TOTAL_STEPS, length * epochs)
        # With `fit(initial_epoch=3)` it goes on where an earlier job ended
        counter.say(GLOBAL_STEP, epoch * length + batches)
