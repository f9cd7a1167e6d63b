"""For tests: `_mp_fn(index)` per XLA device: a sum over all of them, then a line fitted with averaged gradients.

The last device comes LATE_SECONDS after the others.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr


def fit(device):
    """Losses of a linear model of y = 3x - 2, each device on its own points."""
    model = torch.nn.Linear(1, 1)
    for parameter in model.parameters():  # not by random numbers: the devices are threads, which share the generator
        torch.nn.init.zeros_(parameter)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # Made on the host: as a constant of the program it would give each device a program of its own.
    x = (torch.linspace(-1, 1, 32).unsqueeze(1) + 0.1 * xr.global_ordinal()).to(device)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), 3 * x - 2)
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        losses.append(loss.item())
    return losses, [parameter.item() for parameter in model.parameters()]


def _mp_fn(index):
    """Train, and write what this device saw."""
    device = torch_xla.device()
    if xr.global_ordinal() == xr.world_size() - 1:
        time.sleep(float(os.environ.get("LATE_SECONDS", "0")))
    total = xm.all_reduce(xm.REDUCE_SUM, torch.full((2,), xr.global_ordinal(), dtype=torch.float32).to(device))
    torch_xla.sync()
    losses, weights = fit(device)
    metrics = {
        "rank": xr.global_ordinal(), "index": index, "world_size": xr.world_size(), "sum": total[0].item(),
        "losses": losses, "weights": weights, "host": os.environ["SM_CURRENT_HOST"],
        "environment": {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")},
    }  # fmt: skip
    path = Path(os.environ["SM_OUTPUT_DATA_DIR"], f"metrics-rank{xr.global_ordinal()}.json")
    path.write_text(json.dumps(metrics))
