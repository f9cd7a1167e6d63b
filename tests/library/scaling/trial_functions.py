"""Training steps for the trials of test_largest_batch.py: each takes a batch size."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any

MEGABYTE = 1 << 20
_model: list[Any] = []


def takes(batch: int) -> None:
    held = bytearray(batch * MEGABYTE)
    held[::4096] = b"x" * len(held[::4096])


def dies(batch: int) -> None:
    if batch > 4:
        os.kill(os.getpid(), 9)  # as the kernel does where memory ends


def dies_with_children(batch: int) -> None:
    child = subprocess.Popen(["sleep", "3600"])  # it keeps standard output open
    with open(os.environ["CHILDREN"], "a") as file:
        file.write(f"{child.pid}\n")
    dies(batch)


def is_wrong(batch: int) -> None:
    raise ArithmeticError("no batch would help")


def hangs_above_two(batch: int) -> None:
    if batch > 2:
        time.sleep(3600)


def trains(batch: int) -> None:
    import torch

    if not _model:
        torch.set_num_threads(1)
        _model.append(torch.nn.Linear(64, 1 << 18))
    _model[0](torch.ones(batch, 64)).sum().backward()  # a sample takes 1 MiB of activations
    _model[0].zero_grad()
