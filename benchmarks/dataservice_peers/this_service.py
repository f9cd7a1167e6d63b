"""dlc_runtime.dataservice: one data host with one worker, one training rank, as users call them."""

from __future__ import annotations

import sys
from typing import Any

import batches
import torch

from dlc_runtime.dataservice import RemoteLoader, serve

MANY = 10**9


class Ready:
    """Each sample is a whole batch that is there already."""

    def __init__(self, size: int) -> None:
        images, labels = batches.ready(size)
        self.batch = torch.from_numpy(images), torch.from_numpy(labels)

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, _index: int) -> Any:
        return self.batch


if __name__ == "__main__":
    role, port, size, count = sys.argv[1], *map(int, sys.argv[2:5])
    if role == "serve":
        serve(Ready(size), batch_size=None, workers=1, address="127.0.0.1", port=port, token="benchmark")
    else:
        rank, world = (
            (int(text) for text in (*sys.argv[5:7], *"01"[len(sys.argv) - 5 :])) if len(sys.argv) > 6 else (0, 1)
        )
        ports = sys.argv[7:] or [str(port)]
        servers = [f"127.0.0.1:{number}" for number in ports]
        loader = RemoteLoader(servers, rank=rank, world=world, token="benchmark")
        batches.timed(iter(loader), count, batches.size_of(batches.ready(size)))
