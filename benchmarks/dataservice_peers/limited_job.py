"""The script of limited_hosts.py: a training host prepares its batches by itself, or takes them from data hosts."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc_bytes
import torch

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

IMAGES, SIDE, PORT = 32, 64, 7900
WARM_UP = 80  # steps, until what was made ahead at the start is used up


class Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Float images; a batch of them costs as much CPU time as the benchmark says."""

    def __init__(self, cost: float) -> None:
        self.cost = cost

    def __len__(self) -> int:
        return 10**6

    def __getitems__(self, indices: list[int]) -> list[Any]:
        until = time.process_time() + self.cost
        while time.process_time() < until:
            pass
        return [(torch.full((3, SIDE, SIDE), float(index)), index) for index in indices]


def train(batches: Iterator[Any], step: float, steps: int) -> None:
    """Write the milliseconds of a step, from batch to batch."""
    for number in range(-WARM_UP, steps):
        if number == 0:
            begin = time.perf_counter()
        next(batches)
        time.sleep(step)  # the GPU's
    found = (time.perf_counter() - begin) / steps * 1e3
    Path(os.environ["SM_MODEL_DIR"], "step.json").write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way")
    parser.add_argument("--cost", type=float)
    parser.add_argument("--step", type=float)
    parser.add_argument("--steps", type=int)
    told = parser.parse_args()
    torch.set_num_threads(1)
    job = dlc_runtime.cluster()
    loader = torch.utils.data.DataLoader(Images(told.cost / 1e3), IMAGES, num_workers=1)
    data = [host for host in job.hosts if host.group == "data_group"]
    if not job.is_training:
        if told.way == "this service":
            serve(loader)
        else:
            made = ([tensor.numpy() for tensor in batch] for batch in loader)
            grpc_bytes.serve_batches(PORT, made, "0.0.0.0")
    elif not data:
        train(iter(loader), told.step / 1e3, told.steps)
    elif told.way == "this service":
        train(iter(RemoteLoader(rank=0, world=1)), told.step / 1e3, told.steps)
    else:
        streams = itertools.cycle([grpc_bytes.take(PORT, IMAGES, host.address) for host in data])
        train((next(stream) for stream in streams), told.step / 1e3, told.steps)
    os._exit(0)  # without waiting for what was fetched ahead


if __name__ == "__main__":
    main()
