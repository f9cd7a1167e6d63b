"""Which samples a batch holds, and which batches a training rank owns or may take. Pure."""

from __future__ import annotations

import hashlib
import heapq
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TAILS = ("keep", "drop")
WHEN_LOST = ("fail", "give_back")
# Of the permutation.
ROUNDS = 6
_MASK = (1 << 64) - 1


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


class Permutation:
    """A permutation of range(count), decided by the key alone; each position is computed alone.

    A list of it would cost every worker eight bytes per sample. Here a Feistel network permutes the smallest power of
    four that holds the numbers; a number outside is permuted again until it falls inside.
    """

    def __init__(self, count: int, *key: int) -> None:
        self.count = count
        self._half = max(1, ((count - 1).bit_length() + 1) // 2)
        text = ",".join(map(str, (count, *key))).encode()
        digest = hashlib.blake2b(text, digest_size=8 * ROUNDS, person=b"dlc order").digest()
        self._keys = struct.unpack(f"<{ROUNDS}Q", digest)

    def __getitem__(self, position: int) -> int:
        if not 0 <= position < self.count:
            raise IndexError(position)
        number = self._permuted(position)
        while number >= self.count:
            number = self._permuted(number)
        return number

    def _permuted(self, number: int) -> int:
        half = self._half
        low = (1 << half) - 1
        left, right = number >> half, number & low
        for key in self._keys:
            mixed = (right ^ key) * 0xBF58476D1CE4E5B9 & _MASK
            mixed = (mixed ^ mixed >> 29) * 0x94D049BB133111EB & _MASK
            left, right = right, left ^ (mixed >> 32 & low)
        return left << half | right


class Epoch:
    """The batches of one epoch: batch id -> sample indices."""

    def __init__(self, sampling: Sampling, epoch: int) -> None:
        self.sampling = sampling
        self._order: Sequence[int] | Permutation = (
            Permutation(sampling.samples, sampling.seed, epoch) if sampling.shuffle else range(sampling.samples)
        )

    def indices(self, batch: int) -> list[int]:
        """Return the samples of a batch. Raises IndexError for an id that the epoch does not have."""
        if not 0 <= batch < self.sampling.batches:
            raise IndexError(batch)
        start = batch * self.sampling.batch_size
        return [self._order[at] for at in range(start, min(start + self.sampling.batch_size, self.sampling.samples))]


class Share(NamedTuple):
    """A training rank among all of them."""

    rank: int
    world: int

    def ids(self, batches: int, start: int = 0, tail: str = "keep") -> range:
        """Return this rank's batches from `start` on: every `world`-th one.

        If the batches do not divide, the ranks' shares differ by one batch; with the tail dropped they do not.
        """
        last = batches - (batches - start) % self.world if tail == "drop" else batches
        return range(min(start + self.rank, last), last, self.world)


class Leases:
    """The ids of one epoch."""

    def __init__(self, ids: Iterable[int], when_lost: str = "fail") -> None:
        self._ids = iter(ids)
        # Given back: they go out first.
        self._back: list[int] = []
        self._leased: dict[int, set[int]] = {}
        self.when_lost = when_lost

    def grant(self, consumer: int, most: int) -> list[int] | None:
        """Return up to `most` ids; none if all are given out. None: wait, a lost consumer may yet give some back."""
        found: list[int] = []
        while len(found) < most:
            id_ = heapq.heappop(self._back) if self._back else next(self._ids, None)
            if id_ is None:
                break
            found.append(id_)
        if found:
            self._leased.setdefault(consumer, set()).update(found)
        elif self.when_lost == "give_back" and any(ids for other, ids in self._leased.items() if other != consumer):
            return None
        return found

    def finish(self, consumer: int, ids: Iterable[int]) -> None:
        """Take trained ids off the consumer. Raises KeyError for an id that it does not hold."""
        held = self._leased.get(consumer, set())
        for id_ in ids:
            held.remove(id_)

    def release(self, consumer: int) -> None:
        """Let the ids that the consumer did not take go out again: it left, or is dead."""
        for id_ in self._leased.pop(consumer, set()):
            heapq.heappush(self._back, id_)
