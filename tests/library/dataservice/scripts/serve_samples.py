"""A data host: serves a dataset by its name, with arguments of serve as JSON."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import time

from dlc_runtime.dataservice import serve


class Numbers:
    """Sample i is i."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> object:
        return index


class Delayed(Numbers):
    """Takes another time at every host and every call: only order must not depend on it."""

    def __getitem__(self, index: int) -> object:
        time.sleep(random.SystemRandom().random() * 0.004)
        return index


class Drawn(Numbers):
    """What the user's code draws at random."""

    def __getitem__(self, index: int) -> object:
        return [index, random.random()]


class Raises(Numbers):
    def __getitem__(self, index: int) -> object:
        if index == 7:
            raise ValueError("sample seven is broken")
        return index


class Hangs(Numbers):
    def __getitem__(self, index: int) -> object:
        while index == 7:
            time.sleep(1)
        return index


class Dies(Numbers):
    def __getitem__(self, index: int) -> object:
        if index == 7:
            os.kill(os.getpid(), 9)
        return index


class Large(Numbers):
    def __getitem__(self, index: int) -> object:
        return bytes([index % 251]) * 1_000_000


class Odd(Numbers):
    def __getitem__(self, index: int) -> object:
        return {"image": object()}


class Unsorted(Numbers):
    """As a listing that nobody sorts: another order on each host."""

    def __init__(self, count: int) -> None:
        # By the process: no sample stands at the same place on two hosts.
        self.order = [(index + os.getpid()) % count for index in range(count)]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> object:
        return self.order[index]


class Augmented(Numbers):
    """Draws from generators of its own, which no two hosts share; tells of its host, its process and the time."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.own, self.place = random.Random(), f"/tmp/{random.SystemRandom().random()}"

    def __getitem__(self, index: int) -> object:
        flipped = -index if self.own.random() < 0.5 else index
        return [index, flipped, self.own.random(), random.random(), f"{self.place}/{index}", os.getpid(), time.time()]


class Slow(Numbers):
    def __getitem__(self, index: int) -> object:
        time.sleep(0.05)
        return index


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    name, count, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    serve(globals()[name](count), list, address="127.0.0.1", **options)
    print("served", flush=True)


if __name__ == "__main__":
    main()
