"""Made to be compiled again, or to break graphs: argv[1] says how."""

import sys

import torch
from small_training import data, finish
from torch import nn

how = sys.argv[1]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls = 0
        self.kept = []

    def forward(self, x):
        x = self.layer(x)
        if how == "number":
            self.calls += 1
            x = x * self.calls
        if how == "print":
            print("shape", x.shape)
            x = torch.tanh(x)
        if how == "item":
            x = x * x.sum().item()
        if how == "list":
            self.kept.append(1)
            x = x + len(self.kept)
        return x.sum()


model = Model()
steps = 16 if how in ("number", "shape", "list") else 8
batches = data(steps)
if how == "shape":  # of the sixth step on, each has another size
    batches = [(x if index < 5 else torch.randn(index, 8), y) for index, (x, y) in enumerate(batches)]
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
losses = []
for x, _ in batches:
    optimizer.zero_grad()
    loss = model(x)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model)
