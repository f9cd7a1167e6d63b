"""Leaves loaders in an epoch, and makes them anew for each; prints, as JSON, what is left and what came."""

from __future__ import annotations

import gc
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from forked_host import data_host

from dlc_runtime.dataservice import RemoteLoader


class Samples:
    """Numbers that are large."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        return index, bytes(1 << 20)


def held() -> dict[str, int]:
    """Threads and descriptors, once those have gone that end by themselves soon: which ask the hosts."""
    until = time.monotonic() + 60
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.02)
    return {"threads": threading.active_count(), "descriptors": len([*Path("/proc/self/fd").iterdir()])}


def take_one(address: str) -> None:
    loader = RemoteLoader([address], rank=0, world=1, patience=240)
    loader.set_epoch(7)
    for _ in loader:
        break


def numbers(loader: RemoteLoader) -> list[int]:
    with loader:
        return [index for batch in loader for index, _ in batch]


def main() -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("dlc.dataservice").addHandler(handler)
    # Nothing may wait for the collector.
    gc.disable()
    with data_host(Samples(), collate=list, batch_size=1, shuffle=True, workers=2) as address:
        # Whatever the first one imports and opens for good.
        numbers(RemoteLoader([address], rank=1, world=2))
        before = held()
        take_one(address)
        left = {name: count - before[name] for name, count in held().items()}
        loader = RemoteLoader([address], rank=0, world=1, patience=240)
        loader.set_epoch(0)
        for _ in loader:
            # So many wait that the break lets go of them.
            while len(loader._prefetcher.queue.held) < 5:  # type: ignore[union-attr]
                time.sleep(0.02)
            break
        waiting = len(loader._prefetcher.queue.held)  # type: ignore[union-attr]
        loader.set_epoch(0)
        epochs = [numbers(loader), *[numbers(RemoteLoader([address], rank=0, world=1)) for _ in range(2)]]
        stated = RemoteLoader([address], rank=0, world=1)
        stated.set_epoch(0)
        told = {
            "left behind": left,
            "waiting after a break": waiting,
            "said": said,
            "epochs": epochs,
            "stated": numbers(stated),
            "another rank": numbers(RemoteLoader([address], rank=0, world=2)),
            "its share of the first epoch": epochs[0][::2],
        }
        print(json.dumps(told))


if __name__ == "__main__":
    main()
