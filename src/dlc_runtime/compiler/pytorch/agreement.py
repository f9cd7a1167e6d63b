"""What all ranks of a training share: results of a block, and values of rank 0, by the job's store or Horovod."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time

import torch

from dlc_runtime.compiler.choosing.candidates import Result, slowest
from dlc_runtime.compiler.pytorch import torch_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

WAIT = datetime.timedelta(seconds=60)
SENT = 1024  # bytes of rank 0's value
LOST = "a rank got no answer from the others within a minute"


class Agreement:
    """What all ranks share, by the job's store or Horovod: results of a block, values of rank 0."""

    def __init__(self) -> None:
        self._number = 0

    def agree(self, result: Result) -> Result | None:
        """Return what all ranks showed together; None if that cannot be known."""
        group, horovod = process_group(), torch_facts.horovod_of_ranks()
        self._number += 1
        if group is None:
            return result if horovod is None else self._gather(horovod, result)
        store, rank, size = group
        key = str(self._number)
        try:
            store.set(f"{key}/{rank}", json.dumps(result))
            if rank == 0:
                store.set(key, json.dumps(slowest_of_ranks(store, key, size)))
                delete_answers(store, str(self._number - 1), size)
            store.wait([key], WAIT)
            answer = json.loads(store.get(key))
        except Exception:
            # The store's errors differ by version, and all mean the same here.
            return None
        return Result(*answer) if answer is not None else None

    def as_rank_0(self, value: Any) -> Any:
        """Return rank 0's value, of JSON; None if that cannot be known."""
        group, horovod = process_group(), torch_facts.horovod_of_ranks()
        self._number += 1
        if group is None:
            return value if horovod is None else self._send(horovod, value)
        store, rank, _ = group
        key = f"value/{self._number}"
        try:
            if rank == 0:
                store.set(key, json.dumps(value))
            store.wait([key], WAIT)
            return json.loads(store.get(key))
        except Exception:
            return None

    def _gather(self, horovod: Any, result: Result) -> Result | None:
        known = float("nan") if result.seconds is None else result.seconds
        row = [known, result.took, result.compiling, bool(result.failed), *result[4:]]
        numbers = torch.tensor([row], dtype=torch.float64)
        rows = self._wait(horovod, lambda name: horovod.allgather_async(numbers, name=name))
        return slowest(result_from_row(row, result.failed) for row in rows.tolist()) if rows is not None else None

    def _send(self, horovod: Any, value: Any) -> Any:
        text = json.dumps(value).encode()[:SENT].ljust(SENT)
        numbers = torch.tensor(list(text), dtype=torch.uint8)
        sent = self._wait(horovod, lambda name: horovod.broadcast_async(numbers, 0, name=name))
        try:
            return json.loads(bytes(sent.tolist())) if sent is not None else None
        except ValueError:  # longer than what was sent
            return None

    def _wait(self, horovod: Any, begin: Callable[[str], Any]) -> torch.Tensor | None:
        """Return what an operation of ours gives; None if it does not end in time, or fails."""
        try:
            handle = begin(f"dlc.compiler.{self._number}")
            end = time.monotonic() + WAIT.total_seconds()
            while not horovod.poll(handle):
                if time.monotonic() > end:
                    return None
                time.sleep(0.0005)
            found: torch.Tensor = horovod.synchronize(handle)
        except Exception:
            return None
        return found


def result_from_row(row: list[float], failed: str) -> Result:
    """Make a result of gathered numbers. `failed`: this rank's own reason."""
    seconds, took, compiling, has_failed, elapsed, step, memory, shapes, expected = row
    reason = failed or "another rank could not run it"
    known = None if seconds != seconds else seconds  # not a number
    counts = int(step), int(memory), int(shapes)
    return Result(known, took, compiling, reason if has_failed else "", elapsed, *counts, expected)


def slowest_of_ranks(store: Any, key: str, size: int) -> Result | None:
    names = [f"{key}/{rank}" for rank in range(size)]
    try:
        store.wait(names, WAIT)
        return slowest(Result(*json.loads(store.get(name))) for name in names)
    except Exception:
        # The others get this answer, and wait no longer.
        return None


def delete_answers(store: Any, key: str, size: int) -> None:
    """Delete an answer: all ranks have read it before they wrote the next."""
    with contextlib.suppress(Exception):  # not every store can
        for name in (key, *(f"{key}/{rank}" for rank in range(size))):
            store.delete_key(name)


def process_group() -> tuple[Any, int, int] | None:
    """Return our part of the job's store, this rank, and the number of ranks; None if the process is alone."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    store = distributed.distributed_c10d._get_default_store()
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return (
        distributed.PrefixStore(f"dlc-compiler/{attempt}", store),
        distributed.get_rank(),
        distributed.get_world_size(),
    )


def count_ranks() -> int:
    """Return how many processes train together."""
    group, horovod = process_group(), torch_facts.horovod_of_ranks()
    return group[2] if group is not None else int(horovod.size()) if horovod is not None else 1
