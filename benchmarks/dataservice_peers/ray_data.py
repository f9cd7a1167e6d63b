"""Ray Data: tasks on a cluster of this machine make the batches, the training loop takes them from the object store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

MANY = 4000  # batches
EACH = 4  # of a task: one task for each batch costs more than the batch


def take(images: int, side: int, cost: float, burn: bool, cpus: int) -> Iterator[Any]:
    """Batches of `images` float images that cost `cost` CPU seconds each, made by `cpus` tasks at a time."""
    import numpy
    import ray

    def prepare(batch: dict[str, Any]) -> dict[str, Any]:
        until = time.process_time() + cost
        if not burn:
            time.sleep(cost)
        while burn and time.process_time() < until:
            pass
        return {"image": numpy.ones((images, 3, side, side), numpy.float32), "label": batch["id"]}

    ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.range(images * MANY, override_num_blocks=MANY // EACH)
    made = rows.map_batches(prepare, batch_size=images, num_cpus=1)
    return iter(made.iter_torch_batches(batch_size=images, prefetch_batches=8))
