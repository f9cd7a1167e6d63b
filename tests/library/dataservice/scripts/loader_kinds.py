"""Tells, as JSON, which batches `serve` would make of DataLoaders of several kinds, or why it refuses them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.server import batch_source

NUMBERS = list(range(10))


class Own(BatchSampler):  # type: ignore[misc]
    """Of the script's."""


class WithLength(IterableDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[int]:
        return iter(NUMBERS)


def made_of(data: Any) -> Any:
    try:
        found = batch_source.make_source(data, None, 1, False, False, 0, None)
    except SettingError as error:
        return str(error)
    maker = batch_source.BatchMaker(found)
    return [maker.batch(0, id_, maker.indices(0, id_)).tolist() for id_ in range(found.sampling.batches)]


def shuffled(seed: int) -> DataLoader[int]:
    return DataLoader(NUMBERS, 10, sampler=RandomSampler(NUMBERS, generator=torch.Generator().manual_seed(seed)))


def main() -> None:
    kinds = {
        "batch sampler": DataLoader(NUMBERS, batch_sampler=BatchSampler(SequentialSampler(NUMBERS), 4, True)),
        "shuffled batch sampler": DataLoader(NUMBERS, batch_sampler=BatchSampler(RandomSampler(NUMBERS), 4, False)),
        "own batch sampler": DataLoader(NUMBERS, batch_sampler=Own(SequentialSampler(NUMBERS), 4, True)),
        "list of batches": DataLoader(NUMBERS, batch_sampler=[[0, 1], [5]]),
        "samples": DataLoader(NUMBERS, batch_size=None, collate_fn=torch.tensor),
        "seed 1": shuffled(1),
        "seed 2": shuffled(2),
        "iterable with a length": WithLength(),
    }
    print(json.dumps({name: made_of(data) for name, data in kinds.items()}))


if __name__ == "__main__":
    main()
