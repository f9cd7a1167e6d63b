"""Models that depend on NumPy's random numbers."""

import numpy as np
import numpy.random as npr
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        if self.training:
            x = x + 0.1 * npr.randn()  # mistake: DLC137
        if np.random.rand() < 0.5:  # mistake: DLC137
            x = x.flip(0)
        return self.layer(x)


class Quiet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.scale = np.random.uniform(0.9, 1.1)

    def forward(self, x):
        return self.layer(x) * self.scale + torch.randn_like(x)
