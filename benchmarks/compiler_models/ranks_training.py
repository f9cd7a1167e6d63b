"""A training of ranks by torchrun, gloo and DistributedDataParallel, or of one process; prints its CPU seconds.

usage: torchrun --standalone --nproc-per-node=8 ranks_training.py --model bert --size small --steps 12 --out FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

import torch
from pytorch_training import MODELS, batch_of, model_of
from shapes import SIZES


def cpu_seconds() -> float:
    """Of this process and of its children that have ended, such as the C++ compiler."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="bert")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    size = SIZES[arguments.size]
    model = model_of(arguments.model, size, 0.0).train()
    rank = int(os.environ.get("RANK", "0"))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = batch_of(arguments.model, size, "cpu")
    cpu, wall, losses = [cpu_seconds()], [time.perf_counter()], []
    for _ in range(arguments.steps):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        cpu.append(cpu_seconds())
        wall.append(time.perf_counter())
    (arguments.out / f"{rank}.json").write_text(json.dumps({"cpu": cpu, "wall": wall, "losses": losses}))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
