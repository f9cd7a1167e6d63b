"""Serves an existing DataLoader by one line and tells, as JSON, what the loaders of two ranks get."""

from __future__ import annotations

import json

import torch
from forked_host import data_host
from torch.utils.data import DataLoader, TensorDataset, default_collate, get_worker_info

from dlc_runtime.dataservice import RemoteLoader


class Described(TensorDataset):  # type: ignore[misc]
    def __getitem__(self, index: int) -> object:
        info = get_worker_info()
        return (*super().__getitem__(index), info.id, info.num_workers, torch.get_num_threads())


def collate(samples: list[object]) -> list[torch.Tensor]:
    batch = default_collate(samples)
    return [*batch, torch.tensor(batch[0].is_shared())]


def main() -> None:
    dataset = Described(torch.arange(50).float().view(50, 1), torch.arange(50))
    existing = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=3, collate_fn=collate)
    with data_host(existing) as address:
        found = []
        for rank in range(2):
            with RemoteLoader([address], rank=rank, world=2, patience=120, pin_memory=True) as loader:
                told = {"length": len(loader), "samples": len(loader.dataset), "batch_size": loader.batch_size}
                batches = list(loader)
            told["labels"] = [batch[1].tolist() for batch in batches]
            told["pairs"] = all(torch.equal(batch[0][:, 0], batch[1].float()) for batch in batches)
            told["workers"] = sorted({int(number) for batch in batches for number in batch[3]})
            told["threads"] = sorted({int(number) for batch in batches for number in batch[4]})
            told["shared"] = any(bool(batch[5]) for batch in batches)
            found.append(told)
        print(json.dumps(found))


if __name__ == "__main__":
    main()
