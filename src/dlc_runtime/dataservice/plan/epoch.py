"""Which samples a batch holds and which batches a training rank owns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.plan.permutation import Permutation

if TYPE_CHECKING:
    from collections.abc import Sequence

TAILS = ("keep", "drop")


class Sampling(NamedTuple):
    """How the samples of a dataset become the batches of an epoch."""

    samples: int
    batch_size: int
    shuffle: bool = False
    drop_last: bool = False
    seed: int = 0

    @property
    def batches(self) -> int:
        whole, rest = divmod(self.samples, self.batch_size)
        return whole if self.drop_last or not rest else whole + 1


class Epoch:
    """The batches of one epoch: batch id -> sample indices."""

    def __init__(self, sampling: Sampling, epoch: int) -> None:
        self.sampling = sampling
        self._order: Sequence[int] | Permutation = (
            Permutation(sampling.samples, sampling.seed, epoch) if sampling.shuffle else range(sampling.samples)
        )

    def indices(self, batch: int) -> list[int]:
        """Raises IndexError for an id that the epoch does not have."""
        if not 0 <= batch < self.sampling.batches:
            raise IndexError(batch)
        start = batch * self.sampling.batch_size
        return [self._order[at] for at in range(start, min(start + self.sampling.batch_size, self.sampling.samples))]


class Share(NamedTuple):
    """A training rank among all of them."""

    rank: int
    world: int

    def ids(self, batches: int, start: int = 0, tail: str = "keep") -> range:
        """The batches from `start` on that are this rank's: every `world`-th one.

        The ranks' shares differ by one batch where the batches do not divide; with the tail dropped they do not.
        """
        last = batches - (batches - start) % self.world if tail == "drop" else batches
        return range(min(start + self.rank, last), last, self.world)
