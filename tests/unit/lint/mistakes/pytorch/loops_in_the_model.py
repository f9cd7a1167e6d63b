"""A recurrent model that runs as many turns as its input says, and a compiled function of its own."""

import random

import torch
from torch import nn


class Ponder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.Linear(width, width)
        self.halt = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        for _ in range(random.randint(1, 4)):  # mistake: DLC104
            x = torch.tanh(self.cell(x))
        for _ in range(int(lengths.max())):  # mistake: DLC104, DLC111
            x = x + self.cell(x)
        left = torch.sigmoid(self.halt(x))
        while left.mean() > 0.1:  # mistake: DLC104
            x = self.cell(x)
            left = left * torch.sigmoid(self.halt(x))
        return x


@torch.compile(dynamic=False)
def distance(x: torch.Tensor, y: torch.Tensor):
    gap = (x - y).abs()
    print("gap", gap.shape)  # mistake: DLC113
    far = torch.masked_select(gap, gap > 1)  # mistake: DLC103
    return gap.sum() + far.sum()


model = Ponder(16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(8, 16), torch.randint(1, 9, (8,))) for _ in range(100)]
for x, lengths in batches:
    optimizer.zero_grad()
    loss = distance(model(x, lengths), x)
    loss.backward()
    optimizer.step()
