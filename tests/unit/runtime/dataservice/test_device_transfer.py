"""Batches on the device that trains: the order of things of CUDA's part, which itself needs a GPU."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from dlc_runtime.dataservice.client.device_transfer import AHEAD, stage


class Source:
    """Batches of which some are here and the others come when they are waited for."""

    def __init__(self, count: int, here: int) -> None:
        self.ids, self.here, self.waited = deque(range(count)), here, 0

    def take(self) -> Any:
        self.waited += 1
        return (self.ids[0], f"batch {self.ids.popleft()}") if self.ids else None

    def take_ready(self) -> Any:
        if not self.here or not self.ids:
            return None
        self.here -= 1
        return self.ids[0], f"batch {self.ids.popleft()}"


@pytest.mark.parametrize("here", [0, 1, 3, 7])
def test_copies_begin_ahead_of_the_loop_in_order_and_within_the_bound(here: int) -> None:
    source, begun, given = Source(7, here), [], []
    for id_, batch in stage(source.take, source.take_ready, lambda batch: begun.append(batch) or batch):
        given.append(id_)
        assert batch == f"batch {id_}"
        assert len(begun) - len(given) <= AHEAD - 1
    assert given == list(range(7))
    assert begun == [f"batch {id_}" for id_ in range(7)]


def test_the_loop_is_not_kept_waiting_for_the_batch_after_the_one_that_is_here() -> None:
    source = Source(3, 0)
    items = stage(source.take, source.take_ready, lambda batch: batch)
    assert next(items) == (0, "batch 0")
    assert source.waited == 1
