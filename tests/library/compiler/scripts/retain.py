"""Two backwards through one forward, from step argv[1] on."""

import sys

import torch
from small_training import Net, data, finish
from torch import nn

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for index, (x, y) in enumerate(data(12)):
    optimizer.zero_grad()
    output = model(x)
    loss = nn.functional.mse_loss(output, y)
    if index >= int(sys.argv[1]):
        loss.backward(retain_graph=True)
        output.abs().mean().backward()
    else:
        loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model)
