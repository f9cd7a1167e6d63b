"""DistributedDataParallel under torchrun: argv[1] is a way to use it."""

import contextlib
import sys

import torch
from small_training import Net, data, finish

how = sys.argv[1]
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
options = {
    "plain": {},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
    "no_sync": {},
    "small": {"bucket_cap_mb": 0.5},
}[how]
model = torch.nn.parallel.DistributedDataParallel(Net(), **options)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for x, y in data(10, seed=rank):
    optimizer.zero_grad()
    with model.no_sync() if how == "no_sync" else contextlib.nullcontext():
        (torch.nn.functional.mse_loss(model(x), y) / 2).backward()
    loss = torch.nn.functional.mse_loss(model(x * 0.5), y)
    if how != "static":
        loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model)
torch.distributed.destroy_process_group()
