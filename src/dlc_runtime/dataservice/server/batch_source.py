"""Turns the user's dataset and functions into batches: batch `id` of an epoch is the same on every data host."""

from __future__ import annotations

import functools
import hashlib
import operator
import random
import sys
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.schedule.assignment import Epoch, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOT_INDEXABLE = (
    "expected a dataset with __len__ and __getitem__; an iterable one has no samples that another data host could make"
    " again when this one dies; give it an index (files and offsets), or read it on the training hosts"
)


class BatchSource(NamedTuple):
    """A dataset, what makes a batch of its samples, and how the samples are drawn."""

    dataset: Any
    collate: Callable[[Any], Any]
    sampling: Sampling
    # False: a sample of the dataset is a batch already.
    batched: bool = True
    worker_init: Callable[[int], None] | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Return what has to be equal on all data hosts."""
        return {**self.sampling._asdict(), "dataset": type(self.dataset).__qualname__}


class BatchMaker:
    """Makes batches in one worker."""

    def __init__(self, source: BatchSource) -> None:
        self.source = source
        self._epoch: tuple[int, Epoch] | None = None

    def indices(self, epoch: int, id_: int) -> list[int]:
        """Return a batch's samples. Raises IndexError for an id that the epoch does not have."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = (epoch, Epoch(self.source.sampling, epoch))
        return self._epoch[1].indices(id_)

    def batch(self, epoch: int, id_: int, indices: list[int]) -> Any:
        """Run the user's code. Random numbers follow from seed, epoch and id: any worker makes the same batch."""
        known = seed_all(self.source.sampling.seed, epoch, id_)
        batch = self._make(indices)
        # The user's code may import one only now, and draw from it unseeded.
        if known != seeded_modules():
            seed_all(self.source.sampling.seed, epoch, id_)
            batch = self._make(indices)
        return batch

    def _make(self, indices: list[int]) -> Any:
        dataset = self.source.dataset
        if not self.source.batched:
            return self.source.collate(dataset[indices[0]])
        if hasattr(dataset, "__getitems__") and dataset.__getitems__:
            return self.source.collate(dataset.__getitems__(indices))
        return self.source.collate([dataset[index] for index in indices])


def seeded_modules() -> tuple[Any, Any]:
    """Return numpy and torch if they are in use: their global generators are seeded."""
    return sys.modules.get("numpy"), sys.modules.get("torch")


@functools.lru_cache(maxsize=1)
def _hash_epoch(seed: int, epoch: int) -> Any:
    return hashlib.blake2b(f"{seed},{epoch},".encode(), digest_size=8, person=b"dlc seed")


def seed_all(seed: int, epoch: int, id_: int) -> tuple[Any, Any]:
    """Seed the global generators of Python, and of numpy and torch if they are in use; return these two."""
    digest = _hash_epoch(seed, epoch).copy()
    digest.update(b"%d" % id_)
    seed = int.from_bytes(digest.digest(), "little")
    random.seed(seed)
    numpy, torch = known = seeded_modules()
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
    if torch is not None:
        # Not torch.manual_seed, which also asks every kind of device: that takes long.
        torch.default_generator.manual_seed(seed)
    return known


def make_source(
    data: Any,
    collate: Callable[[Any], Any] | None,
    batch_size: int | None,
    shuffle: bool,
    drop_last: bool,
    seed: int,
    worker_init: Callable[[int], None] | None,
) -> BatchSource:
    """Make a source from a dataset, or from a DataLoader, whose own settings count. Raises SettingError."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.utils.data.DataLoader):
        if collate is not None or batch_size != 1 or shuffle or drop_last or worker_init is not None:
            raise SettingError(
                "serve: a DataLoader has batch_size, shuffle, drop_last, collate_fn and worker_init_fn of its own;"
                " state them there"
            )
        return _source_of_loader(torch, data, seed)
    # An iterable one inherits a __getitem__.
    is_iterable = torch is not None and isinstance(data, torch.utils.data.IterableDataset)
    if is_iterable or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise SettingError(f"serve: a {type(data).__qualname__} is not indexable; {NOT_INDEXABLE}")
    size = None if batch_size is None else _check_whole("batch_size", batch_size)
    if size is not None and size < 1:
        raise SettingError(f"serve: batch_size: expected a number of at least 1, or None, found {batch_size!r}")
    if collate is None:
        collate = _default_collate() if batch_size is not None else _return_unchanged
    sampling = Sampling(len(data), size or 1, bool(shuffle), bool(drop_last), _check_whole("seed", seed))
    return BatchSource(data, collate, sampling, size is not None, worker_init)


def _check_whole(name: str, value: Any) -> int:
    """Return a number of Python's own: numpy's cannot be sent to the training hosts."""
    try:
        return operator.index(value)
    except TypeError:
        raise SettingError(f"serve: {name}: expected a whole number, found {value!r}") from None


def _source_of_loader(torch: Any, loader: Any, seed: int) -> BatchSource:
    kinds = torch.utils.data
    if isinstance(loader.dataset, kinds.IterableDataset):
        raise SettingError(f"serve: the DataLoader's dataset is iterable; {NOT_INDEXABLE}")
    batches, sampler = loader.batch_sampler, loader.sampler
    batch_size, drop_last = loader.batch_size, loader.drop_last
    if batches is not None:
        if type(batches) is not kinds.BatchSampler:
            raise SettingError(_sampler_message("batch_sampler", batches))
        # One that the script made is all that tells: the loader then says batch_size=None and another sampler.
        sampler, batch_size, drop_last = batches.sampler, batches.batch_size, batches.drop_last
    if isinstance(sampler, kinds.distributed.DistributedSampler):
        # The training ranks share the batches themselves.
        shuffle, seed = bool(sampler.shuffle), int(sampler.seed)
    elif (
        type(sampler) is kinds.RandomSampler and not sampler.replacement and sampler.num_samples == len(loader.dataset)
    ):
        shuffle = True
    elif type(sampler) is kinds.SequentialSampler:
        shuffle = False
    else:
        raise SettingError(_sampler_message("sampler", sampler))
    generator = getattr(sampler, "generator", None) or loader.generator
    if generator is not None:
        seed = generator.initial_seed()
    sampling = Sampling(len(loader.dataset), batch_size or 1, shuffle, bool(drop_last), _check_whole("seed", seed))
    return BatchSource(loader.dataset, loader.collate_fn, sampling, batches is not None, loader.worker_init_fn)


def _sampler_message(what: str, sampler: Any) -> str:
    return (
        f"serve: the DataLoader's {what} is a {type(sampler).__qualname__}; expected shuffle=True or False: the order"
        " has to be computed equally on every data host; put the choice of samples into the dataset's __getitem__"
    )


def _return_unchanged(sample: Any) -> Any:
    return sample


def _default_collate() -> Callable[[Any], Any]:
    """Return torch's own function, without torch the list of samples."""
    try:
        from torch.utils.data.dataloader import default_collate
    except ImportError:
        return _return_unchanged
    return default_collate  # type: ignore[no-any-return]
