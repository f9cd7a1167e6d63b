"""A PyTorch script whose samples take 1 MiB of activations each."""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 1 << 18

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--learning-rate", type=float)
arguments = parser.parse_args()

torch.set_num_threads(1)
model = torch.nn.Linear(4, WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate)
data = TensorDataset(torch.randn(8192, 4))
for _ in range(100):
    for (batch,) in DataLoader(data, arguments.batch_size, drop_last=True):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
