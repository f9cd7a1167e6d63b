"""Sees which part of an epoch is done: batches of the DataLoader that steps are made of."""

from __future__ import annotations

import contextlib
import functools
import weakref

from dlc_runtime.steps.counter import EPOCH, EPOCH_BATCH, EPOCH_BATCHES, ThisProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class Batches:
    """Of one process. An evaluation makes no step, so its loader is never taken for the training's."""

    def __init__(self) -> None:
        self.last: Any = lambda: None
        # Loops over a loader in which a step was made
        self.epochs = 0
        self._seen: Any = lambda: None
        self._taken = self._length = 0

    def note(self, iterator: Any) -> None:
        """Note that a batch was taken of it."""
        if self.last() is not iterator:
            # Keeps no worker of it alive
            self.last = weakref.ref(iterator)

    def write(self, values: Any, is_epoch_known: bool) -> bool:
        """Write where the epoch is, after a step, and which one unless a trainer says it; return whether it is new."""
        iterator = self.last()
        if iterator is None:
            return False
        taken = iterator._num_yielded
        is_new = self._seen() is not iterator or taken < self._taken
        if is_new:
            self.epochs += 1
            self._seen, self._length = weakref.ref(iterator), _length_of(iterator)
        self._taken = taken
        values[EPOCH_BATCH], values[EPOCH_BATCHES] = taken, self._length
        if not is_epoch_known:
            values[EPOCH] = self.epochs
        return is_new


def _length_of(iterator: Any) -> int:
    """Return how many batches an epoch has; 0 if nobody knows: of an IterableDataset, or a sampler without end."""
    # The script's own sampler may raise anything
    with contextlib.suppress(Exception):
        return len(iterator)
    return 0


def patch(module: ModuleType) -> None:
    """Patch `module`, which is torch.utils.data.dataloader."""
    iterator: Any = module.__dict__["_BaseDataLoaderIter"]
    original = iterator.__next__

    @functools.wraps(original)
    def counted_next(self: Any) -> Any:
        batch = original(self)
        counter = ThisProcess.counter
        if counter.batches is None:
            counter.batches = Batches()
        counter.batches.note(self)
        return batch

    iterator.__next__ = counted_next
