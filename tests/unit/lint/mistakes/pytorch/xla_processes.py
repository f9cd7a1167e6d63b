"""`_mp_fn` for the launcher: a process for each device, and barriers where they do not belong."""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from data import loader_of_this_rank
from torch import nn


def train_epoch(model, optimizer, batches):
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        xm.mark_step()  # mistake: DLC124
        loss.backward()
        optimizer.step()  # mistake: DLC126
        if step % 50 == 0:
            xm.add_step_closure(lambda value: print(value.item()), args=(loss,))
        torch_xla.sync()
        xm.mark_step()  # mistake: DLC123


def train_from_device_loader(model, optimizer, device):
    for x, y in pl.MpDeviceLoader(loader_of_this_rank(), device):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        xm.mark_step()  # mistake: DLC123


def _mp_fn(index):
    device = torch_xla.device()
    model = nn.Linear(32, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train_epoch(model, optimizer, pl.ParallelLoader(loader_of_this_rank(), [device]).per_device_loader(device))
    train_from_device_loader(model, optimizer, device)
    xm.save(model.state_dict(), "model.pt")
