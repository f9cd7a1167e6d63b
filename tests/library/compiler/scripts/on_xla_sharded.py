"""SPMD over all XLA devices, or with `cpu` on none: the mesh splits the batch one way and weights the other."""

import sys

import numpy as np
import small_training
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

ON_XLA = "cpu" not in sys.argv


def shard(tensor, *axes):
    if ON_XLA:
        xs.mark_sharding(tensor, mesh, axes)
    return tensor


if ON_XLA:
    xr.use_spmd()
    number = xr.global_runtime_device_count()
    mesh = xs.Mesh(np.arange(number), (number // 2, 2), ("data", "model"))
device = torch_xla.device() if ON_XLA else torch.device("cpu")
model = small_training.Net().to(device)
shard(model.body[0].weight, "model", None)
shard(model.body[2].weight, None, "model")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses = []
for x, y in small_training.data(24, size=8):
    x, y = shard(x.to(device), "data", None), shard(y.to(device), "data", None)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
specs = [torch_xla._XLAC._get_xla_sharding_spec(tensor) for tensor in (x, model.body[2].weight)] if ON_XLA else []
small_training.finish(losses, model.cpu(), shardings=specs)
