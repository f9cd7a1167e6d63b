"""The script compiles its model, or its step, itself."""

import sys

import torch
from small_training import Net, data, finish, train

model = Net()
if sys.argv[1] == "model":
    losses = train(torch.compile(model), data(10))
elif sys.argv[1] == "in-place":
    model.compile()
    losses = train(model, data(10))
else:

    @torch.compile
    def loss_of(x, y):
        return torch.nn.functional.mse_loss(model(x), y)

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in data(10):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
finish(losses, model)
