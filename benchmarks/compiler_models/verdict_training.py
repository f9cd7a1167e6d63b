"""A tiny training, or one of images as MNIST has them, for so many seconds: knows nothing of the compiler.

usage: python verdict_training.py {tiny,mnist} SECONDS
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn


def tiny() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 16), nn.ReLU(), nn.Linear(16, 10))


def mnist() -> nn.Module:
    """Two convolutions and two layers, as introductions have it, but a stride in place of max pooling.

    With max pooling PyTorch 2.13's inductor gives the convolutions no gradient on a CPU: dlc refuses it, and there is
    no speed to compare.
    """
    images = (nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*images, nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def main() -> None:
    torch.manual_seed(0)
    model = {"tiny": tiny, "mnist": mnist}[sys.argv[1]]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, classes = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
