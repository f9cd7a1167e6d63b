"""Feeds a small model from the device's own memory, from a DataLoader or from a RemoteLoader; writes JSON.

usage: python feeding.py {local,remote} --device cuda --out FILE [--small]

Batches are uint8 images, 9.6 MB each, that cost their workers one copy: what is measured is how they travel. A step is
timed from the request for a batch to the end of its work on the device; the waiting share is the part of it in which
the loop had no batch. GB/s is of batches that are moved and not used, beside copies of one page-locked batch.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

WARM_UP = 10  # steps, or batches, before the time is taken
MOST_WORKERS = 8
PATIENCE_SECONDS = 60.0  # until the data server answers


class Size(NamedTuple):
    """Images of a batch, pixels of an image's side, steps that are timed."""

    images: int
    pixels: int
    steps: int


LARGE, SMALL = Size(64, 224, 80), Size(8, 32, 20)


class Images(Dataset):  # type: ignore[type-arg]
    """Ready images; each costs one copy."""

    def __init__(self, size: Size) -> None:
        self.count = size.images * (4 * WARM_UP + 4 * size.steps)
        self.images = torch.randint(256, (size.images, 3, size.pixels, size.pixels), dtype=torch.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> torch.Tensor:
        return self.images[number % len(self.images)].clone()


class Model:
    """A convolution and its step of training."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        layers = (torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))
        self.layers = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(32, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=0.01)

    def step(self, batch: torch.Tensor) -> None:
        loss = self.layers(batch.float() / 255).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def workers() -> int:
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def fed(batches: Iterator[torch.Tensor], model: Model, size: Size, device: str) -> dict[str, float]:
    """Return milliseconds of a step and the share of the time that the loop waited for a batch."""
    steps, waits = [], []
    for _ in range(WARM_UP + size.steps):
        begun = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - begun)
        model.step(batch)
        settle(device)
        steps.append(time.perf_counter() - begun)
    steps, waits = steps[WARM_UP:], waits[WARM_UP:]
    return {"step_ms": 1000 * median(steps), "waiting_share": sum(waits) / sum(steps)}


def gigabytes_per_second(batches: Iterator[torch.Tensor], size: Size, device: str) -> float:
    """Return how fast batches come onto the device if nothing is done with them."""
    for _ in range(WARM_UP):
        next(batches)
    settle(device)
    begun = time.perf_counter()
    total = sum(next(batches).nbytes for _ in range(size.steps))
    settle(device)
    return total / (time.perf_counter() - begun) / 1e9


def measured(batches: Callable[[], Iterator[torch.Tensor]], size: Size, device: str) -> dict[str, float]:
    """Two iterations, since batches that were made ahead in the first one would count in the second."""
    return fed(batches(), Model(device), size, device) | {
        "gb_per_second": gigabytes_per_second(batches(), size, device)
    }


def local(size: Size, device: str) -> dict[str, Any]:
    """From the device's own memory, and by a DataLoader; and one page-locked batch copied over and over."""
    source = Images(size).images
    source = source.pin_memory() if device == "cuda" else source
    here = source.to(device)
    loader = DataLoader(
        Images(size), batch_size=size.images, num_workers=workers(), pin_memory=device == "cuda"
    )  # fmt: skip

    def copies() -> Iterator[torch.Tensor]:
        while True:
            yield source.to(device, non_blocking=True, copy=True)

    def same() -> Iterator[torch.Tensor]:
        while True:
            yield here

    def loaded() -> Iterator[torch.Tensor]:
        return (batch.to(device, non_blocking=True) for batch in loader)

    return {
        "batch_mb": source.nbytes / 1e6,
        "workers": workers(),
        "copy_gb_per_second": gigabytes_per_second(copies(), size, device),
        "on the device": fed(same(), Model(device), size, device),
        "DataLoader": measured(loaded, size, device),
    }


def remote(size: Size, device: str) -> dict[str, Any]:
    """By a RemoteLoader, from a data server on this host."""
    from dlc_runtime.dataservice import RemoteLoader

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, __file__, "serve", "--port", str(port), *(["--small"] if size == SMALL else [])]
    server = subprocess.Popen(argv)
    try:
        place = [f"127.0.0.1:{port}"]
        with RemoteLoader(place, rank=0, world=1, device=device, patience=PATIENCE_SECONDS) as loader:
            found = measured(lambda: iter(loader), size, device)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    return {"workers": workers(), "RemoteLoader": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=("local", "remote", "serve"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--port", type=int)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    size = SMALL if asked.small else LARGE
    if asked.source == "serve":
        from dlc_runtime.dataservice import serve

        serve(Images(size), batch_size=size.images, workers=workers(), address="127.0.0.1", port=asked.port)
        return
    found = {"local": local, "remote": remote}[asked.source](size, asked.device)
    asked.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
