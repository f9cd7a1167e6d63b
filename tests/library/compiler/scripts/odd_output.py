"""A model whose output no tree function can take apart."""

from typing import NamedTuple

import torch
from small_training import Net, data, finish
from torch import nn


class Output(NamedTuple):
    value: torch.Tensor

    def __iter__(self):
        raise RuntimeError("this output is not to be taken apart")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return Output(self.net(x))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses = []
for x, y in data(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x)[0], y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model)
