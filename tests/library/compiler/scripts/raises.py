"""Torch refuses one batch of the compiled steps by an exception, and the script leaves that batch out."""

import torch
from small_training import Net, data, finish
from torch import nn

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses, refused = [], 0
for index, (x, y) in enumerate(data(12)):
    optimizer.zero_grad()
    try:
        loss = nn.functional.mse_loss(model(x if index != 8 else x[:, :5]), y)
    except RuntimeError:
        refused += 1
        continue
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model, refused=refused)
