"""A loop on an XLA device, or with `cpu` on none.

With `shapes` a larger batch comes in the middle, with `fallback` an operation that XLA does not have.
"""

import sys

import small_training
import torch
import torch_xla

device = torch.device("cpu") if "cpu" in sys.argv else torch_xla.device()
model = small_training.Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses = []
batches = small_training.data(24)
if "shapes" in sys.argv:
    batches[12] = small_training.data(1, size=6)[0]
for x, y in batches:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    if "fallback" in sys.argv:
        torch.linalg.eigvals(model.body[2].weight.detach())
    torch_xla.sync()
    losses.append(loss.item())
small_training.finish(losses, model.cpu())
