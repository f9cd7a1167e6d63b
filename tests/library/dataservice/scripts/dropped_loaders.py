"""Leaves loaders in the middle of an epoch, and makes them anew for each; prints, as JSON, what is left and what came."""

from __future__ import annotations

import gc
import json
import logging
import os
import threading
import time
from typing import Any

from forked_host import data_host

from dlc_runtime.dataservice import RemoteLoader

LARGE = 4 << 20


class Samples:
    """Numbers that may be large."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        return index, bytes(LARGE)


def resident() -> float:
    """Megabytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def held() -> dict[str, int]:
    return {"threads": threading.active_count(), "descriptors": len(os.listdir("/proc/self/fd"))}


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
        # gRPC keeps a thread of its own.
        RemoteLoader([address], rank=0, world=1).close()
        numbers(RemoteLoader([address], rank=1, world=2))
        before = held()
        take_one(address)
        # The threads that ask the hosts end by themselves, soon.
        until = time.monotonic() + 60
        while held() != before and time.monotonic() < until:
            time.sleep(0.02)
        left = {name: count - before[name] for name, count in held().items()}
        loader = RemoteLoader([address], rank=0, world=1, patience=240)
        loader.set_epoch(0)
        size = resident()
        for _ in loader:
            # So much is held that the break gives back.
            while resident() < size + 10 * LARGE / 1e6:
                time.sleep(0.02)
            break
        until = time.monotonic() + 60
        while resident() > size + 5 * LARGE / 1e6 and time.monotonic() < until:
            time.sleep(0.02)
        after = resident() - size
        loader.set_epoch(0)
        epochs = [numbers(loader), *[numbers(RemoteLoader([address], rank=0, world=1)) for _ in range(2)]]
        stated = RemoteLoader([address], rank=0, world=1)
        stated.set_epoch(0)
        told = {
            "left behind": left,
            "megabytes after a break": after,
            "said": said,
            "epochs": epochs,
            "stated": numbers(stated),
            "another rank": numbers(RemoteLoader([address], rank=0, world=2)),
            "its share of the first epoch": epochs[0][::2],
        }
        print(json.dumps(told))


if __name__ == "__main__":
    main()
