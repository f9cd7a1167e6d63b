"""What training frameworks look for in a loader: a dataset, samplers, and Accelerate's own state."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Protocol

    class Loader(Protocol):
        """Of RemoteLoader."""

        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[Any]: ...

        def set_epoch(self, epoch: int) -> None: ...

        def skip(self, batches: int) -> None: ...


class RemoteDataset:
    """What is known here of the remote dataset: its length, and by `__getitems__` this rank's batches."""

    def __init__(self, samples: int, loader: Loader) -> None:
        self._samples, self._loader = samples, loader
        self._batches: Iterator[Any] = iter(())
        # The number of the batch that `_batches` gives next.
        self._next = -1

    def __len__(self) -> int:
        return self._samples

    def __getitems__(self, numbers: Sequence[int]) -> Any:
        """Return the batch with this rank's number in the epoch; only in order, from any number on."""
        (number,) = numbers
        if number != self._next:
            self._loader.skip(number)
            self._batches = iter(self._loader)
        self._next = number + 1
        return next(self._batches)


class BatchNumbers:
    """As sampler and batch sampler: the numbers of this rank's batches in an epoch, each in a list."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[int]]:
        return ([number] for number in range(len(self._loader)))

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    @property
    def sampler(self) -> BatchNumbers:
        return self


def return_unchanged(batch: Any) -> Any:
    """Collate batches that are made already."""
    return batch


@contextlib.contextmanager
def accelerate_iteration() -> Iterator[Any]:
    """Yield an object whose `end_of_dataloader` is to be True for the last batch; None without Accelerate."""
    mixin = getattr(sys.modules.get("accelerate.data_loader"), "DataLoaderStateMixin", None)
    if mixin is None:
        yield None
        return
    state = _make_state(mixin)
    state.begin()
    try:
        yield state
    finally:
        state.end()


def _make_state(mixin: Any) -> Any:
    # The mixin's module imports it.
    state = sys.modules["accelerate.state"]

    class State(mixin):  # type: ignore[misc]
        """Accelerate's own part of a loader."""

        def __init__(self) -> None:
            self.gradient_state = state.GradientState()

    return State()
