"""What the scripts share: a small model, its data, and where losses and weights go."""

import json
import os
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(7)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.body(x))


def data(steps, size=4, features=8, targets=2, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(size, features, generator=generator), torch.randn(size, targets, generator=generator))
        for _ in range(steps)
    ]


def train(model, batches, optimizer=None, before_step=None):
    """A plain loop; `before_step(index)` is called first in each."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for index, (x, y) in enumerate(batches):
        if before_step:
            before_step(index)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def finish(losses, *models, **more):
    """Writes what a test compares: losses and weights, and whatever else the script found."""
    weights = [{name: value.tolist() for name, value in model.state_dict().items()} for model in models]
    path = Path(os.environ["RESULTS"]) / f"{os.environ.get('RANK', '0')}.json"
    path.write_text(json.dumps({"losses": losses, "weights": weights, **more}))
