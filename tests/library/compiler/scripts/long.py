"""Trains until it is killed; says when it has done argv[1] steps."""

import sys

import torch
from small_training import Net, data

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
((x, y),) = data(1)
step = 0
while True:
    step += 1
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    if step == int(sys.argv[1]):
        print("ready", flush=True)
