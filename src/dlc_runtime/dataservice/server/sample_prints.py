"""Draws a few samples before a data host serves: by their prints the training hosts see whether hosts serve the same.

In a process of its own, as it is the user's code: it may end, hang, or open what it must not share.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import signal
import time
from multiprocessing import connection
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.schedule import likeness
from dlc_runtime.dataservice.server import worker
from dlc_runtime.dataservice.server.batch_source import BatchMaker
from dlc_runtime.dataservice.wire import serialization

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    from dlc_runtime.dataservice.server.batch_source import BatchSource

# What is drawn by then counts.
WITHIN_SECONDS = 5.0
# Of a sample; numbers of a leaf of floats.
MOST_LEAVES = 32
MOST_NUMBERS = 16
# Name in torch or numpy -> code of the array module. Other floats are not compared.
_FLOATS: dict[str, Literal["f", "d"]] = {"float32": "f", "float64": "d", "complex64": "f", "complex128": "d"}
_FLOATS.update({"<f4": "f", "<f8": "d", "<c8": "f", "<c16": "d"})
_SKIPPED = ("float", "bfloat", "complex", "<f", "<c", ">f", ">c")


def draw_samples(context: Any, source: BatchSource, workers: int, wake: int) -> list[Any]:
    """Return the prints that came in time, from a process of its own; at once if `wake` can be read."""
    until = time.monotonic() + WITHIN_SECONDS
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_draw, args=(theirs, source, workers, os.getpid()), daemon=True)
    process.start()
    theirs.close()
    found: list[Any] = []
    try:
        while (left := until - time.monotonic()) > 0:
            if ours not in connection.wait([ours, wake], left):
                break
            found.append(ours.recv())
    except EOFError:
        pass
    finally:
        process.kill()
        process.join()
        ours.close()
    return found


def _draw(told: Any, source: BatchSource, workers: int, parent: int) -> None:
    """Live as the process that draws."""
    worker.die_with_parent(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is wrong with worker_init the workers say.
    with contextlib.suppress(Exception, SystemExit):
        worker.act_as_torch_worker(source, 0, workers)
        maker = BatchMaker(source)
        for index in likeness.choose(source.sampling.samples):
            told.send(draw_twice(maker, index))


def draw_twice(maker: BatchMaker, index: int) -> list[Any]:
    """Return the print of a sample, with None for what comes out otherwise the second time; empty if it cannot be made.

    What the global generators decide is the same both times, and on every host.
    """
    try:
        first, second = (print_of(maker.batch(0, index, [index])) for _ in range(2))
    except (Exception, SystemExit):
        # The rank whose batch it is gets the error.
        return []
    return [one if one == two else None for one, two in itertools.zip_longest(first, second)]


def print_of(batch: Any) -> list[Any]:
    """Return the leaves of a batch. Raises UnsupportedBatchError."""
    packed = serialization.pack(batch)
    values = json.loads(packed.extras) if packed.extras else []
    parts = iter(packed.parts)
    arrays = serialization.read_schema(packed.schema, max(packed.size, 1)).arrays
    leaves = itertools.chain(
        _print_values(values), (_print_array(leaf, next(parts) if leaf.size else b"") for leaf in arrays)
    )
    return [*itertools.islice(leaves, MOST_LEAVES)]


def _print_values(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _print_values(value)
        elif isinstance(value, float):
            yield _finite([value])
        elif isinstance(value, str):
            # Of a path its name: the folder may be another one on each host.
            yield _digest(value.rpartition("/")[2].encode("utf-8", "surrogatepass"))
        else:
            yield repr(value)


def _print_array(leaf: serialization.Leaf, memory: Any) -> Any:
    code = _FLOATS.get(leaf.dtype)
    if code is None and leaf.dtype.startswith(_SKIPPED):
        return None
    if code is not None and memory:
        numbers = memoryview(memory).cast("B").cast(code)
        return _finite(numbers[:: max(1, len(numbers) // MOST_NUMBERS)][:MOST_NUMBERS].tolist())
    return _digest(repr(leaf[:3]).encode(), memory)


def _digest(*parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _finite(numbers: Any) -> list[float]:
    return [float(f"{number:.6g}") if math.isfinite(number) else 0.0 for number in numbers]
