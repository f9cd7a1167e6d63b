"""What every peer sends, float32 images and int64 labels that are ready, and how every consumer is timed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy

PIXELS = 1024  # of an image: 4 KiB
WARM_UP = 0.5  # of the batches; not timed: what was fetched ahead between two rounds is used up


def ready(size: int) -> tuple[Any, Any]:
    """A batch of about `size` bytes."""
    images = max(1, size // (PIXELS * 4 + 8))
    return numpy.random.default_rng(0).random((images, PIXELS), dtype=numpy.float32), numpy.arange(images)


def size_of(batch: tuple[Any, Any]) -> int:
    return int(batch[0].nbytes + batch[1].nbytes)


def play(serve: Callable[[int, int], None], take: Callable[[int, int], Iterator[Any]]) -> None:
    """A peer's command line: `serve|take PORT BYTES COUNT`."""
    role, port, size, count = sys.argv[1], *map(int, sys.argv[2:5])
    if role == "serve":
        serve(port, size)
    else:
        timed(take(port, size), count, size_of(ready(size)))


def timed(batches: Iterator[Any], count: int, size: int) -> None:
    """In each round take `count` batches; "start" says that the warm-up is over, then JSON what the rest took."""
    warm_up = int(count * WARM_UP)
    while sys.stdin.readline():
        for _ in range(warm_up):
            next(batches)
        print("start", flush=True)
        sys.stdin.readline()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count - warm_up):
            batch = next(batches)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert len(batch) == 2
        print(json.dumps({"seconds": wall, "cpu": cpu, "bytes": (count - warm_up) * size}), flush=True)
