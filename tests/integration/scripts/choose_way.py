"""For tests: a plain loop of two ranks, by DistributedDataParallel or Horovod, whose compiled steps are slow on one.

What the compiler runtime would compile with is a backend of the test's own, which sleeps. What each rank saw is in
metrics-rank<N>.json.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn

from dlc_runtime.compiler.pytorch import ways

PAUSE = 0.02  # seconds of a forward: a block of 0.2 s has at most ten steps
BY_HOROVOD = "HOROVOD_RANK" in os.environ
RANK = int(os.environ["HOROVOD_RANK" if BY_HOROVOD else "RANK"])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            time.sleep(PAUSE)
        return self.head(torch.tanh(self.body(x)))


def slow(graph, _inputs):
    """Three times as slow as eager on the second host, and as fast on the first."""

    def run(*arguments):
        time.sleep(PAUSE * 3 if RANK else PAUSE)
        return graph(*arguments)

    return run


def distributed(model):
    """The module that is called, and its optimizer."""
    if not BY_HOROVOD:
        torch.distributed.init_process_group("gloo")
        called = nn.parallel.DistributedDataParallel(model)
        return called, torch.optim.SGD(called.parameters(), lr=0.1)
    import horovod.torch as hvd

    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
steps = parser.parse_args().steps
ways.WAYS["slow"] = ways.Way("slow", {"backend": slow})
ways.TRIED["cpu"] = ("slow",)
torch.manual_seed(7)
model = Model()
called, optimizer = distributed(model)
generator = torch.Generator().manual_seed(100 + RANK)
losses = []
for _ in range(steps):
    x = torch.randn(4, 8, generator=generator)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(called(x), x[:, :2])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = {name: value.flatten().tolist() for name, value in model.state_dict().items()}
path = Path(os.environ["SM_OUTPUT_DATA_DIR"], f"metrics-rank{RANK}.json")
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text(json.dumps({"rank": RANK, "losses": losses, "weights": weights}))
if not BY_HOROVOD:
    torch.distributed.destroy_process_group()
