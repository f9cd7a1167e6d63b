"""Models that depend on NumPy's random numbers and change what is not theirs."""

import numpy as np
import numpy.random as npr
import torch
from torch import nn

calls = 0
seen = []
last = None
shapes = {}


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        global calls, last
        calls += 1  # mistake: DLC138
        if self.training:
            x = x + 0.1 * npr.randn()  # mistake: DLC137
        if np.random.rand() < 0.5:  # mistake: DLC137
            x = x.flip(0)
        seen.append(x.shape)  # mistake: DLC138
        shapes.update(last=x.shape)
        last = x
        kept = []
        kept.append(x)
        return self.layer(kept[0])


class Quiet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.scale = np.random.uniform(0.9, 1.1)

    def forward(self, x):
        calls = 1
        calls += 1
        return self.layer(x) * self.scale * calls + torch.randn_like(x)
