"""For tests: SPMD over all XLA devices of a host: one program, its data split over a mesh of devices."""

import json
import os
from pathlib import Path

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
number = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(number), (number,), ("data",))
device = torch_xla.device()
torch.manual_seed(0)
model = torch.nn.Linear(1, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 8 * number).unsqueeze(1).to(device)
xs.mark_sharding(x, mesh, ("data", None))
losses = []
for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 2)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
metrics = {
    "rank": int(os.environ["RANK"]), "devices": number, "losses": losses,
    "weights": [parameter.item() for parameter in model.parameters()],
    "sharding": torch_xla._XLAC._get_xla_sharding_spec(x),
}  # fmt: skip
Path(os.environ["SM_OUTPUT_DATA_DIR"], f"metrics-rank{metrics['rank']}.json").write_text(json.dumps(metrics))
