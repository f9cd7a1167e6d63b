"""What training frameworks look for in a DataLoader: a dataset, and a sampler with an epoch. Imports nothing.

A framework that resumes builds a DataLoader of its own over `dataset` and a batch sampler that leaves out the first
numbers (Accelerate's `skip_first_batches`, which Trainer calls). So the sampler here yields numbers of batches, and
the dataset gives the batch of a number: nothing that is left out is made or sent.
"""

from __future__ import annotations

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
    """What is known here of the dataset on the data hosts: its length, and by `__getitems__` this rank's batches."""

    def __init__(self, samples: int, loader: Loader) -> None:
        self._samples, self._loader = samples, loader
        self._batches: Iterator[Any] = iter(())
        self._next = -1  # the number of the batch that `_batches` gives next

    def __len__(self) -> int:
        return self._samples

    def __getitems__(self, numbers: Sequence[int]) -> Any:
        """The batch with this rank's number in the epoch; only in order, from any one on."""
        (number,) = numbers
        if number != self._next:
            self._loader.skip(number)
            self._batches = iter(self._loader)
        self._next = number + 1
        return next(self._batches)


class BatchNumbers:
    """Stands where sampler and batch sampler stood: the numbers of this rank's batches in an epoch, each in a list."""

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


def as_it_is(batch: Any) -> Any:
    """The collate function of batches that are made."""
    return batch
