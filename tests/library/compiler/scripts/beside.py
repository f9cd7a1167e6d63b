"""Trains until compiled code has run for some steps, at most 200 s; argv says what else there is."""

import os
import sys
import time

import torch
from small_training import Net, data, finish
from torch import nn

more = sys.argv[1:]
model = Net()
if "threads" in more:
    torch.set_num_threads(2)
    torch.mm(torch.randn(600, 600), torch.randn(600, 600))  # OpenMP's threads live
if os.environ.get("DLC_COMPILER"):
    from dlc_runtime.compiler.pytorch import beside

    beside.LOWEST_PRIORITY = 0  # on a busy host the test would wait for minutes
    if "ends" in more:
        beside.Beside._compile = lambda *_: os._exit(3)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses, compiled, end = [], 0, time.monotonic() + 200
batches = data(8)
while compiled < 50 and time.monotonic() < end and ("ends" not in more or len(losses) < 600):
    time.sleep(0.004)
    x, y = batches[len(losses) % 8]
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    compiled += "torch._inductor.codecache" in sys.modules
finish(losses, model)
