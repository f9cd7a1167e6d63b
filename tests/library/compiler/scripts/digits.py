"""The MNIST example of PyTorch with dropout, "conv", or one without convolutions, "linear"; then steps, a format."""

import sys

import torch
from small_training import finish
from torch import nn
from torch.nn import functional

kind, steps, form = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["float32"])[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, 1), nn.Conv2d(32, 64, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = self.dropout1(functional.max_pool2d(x, 2))
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        return functional.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def linear():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.25), nn.Linear(64, 64), nn.GELU(),
        nn.Dropout(0.5), nn.Linear(64, 10), nn.LogSoftmax(1),
    )  # fmt: skip


model = Net() if kind == "conv" else linear()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(1)
losses = []
for index in range(steps):
    # The last batch of an epoch is smaller.
    x = torch.randn(5 if index % 50 == 49 else 64, 1, 28, 28, generator=generator)
    y = x.flatten(1)[:, :10].argmax(1)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=form == "bfloat16"):
        loss = functional.nll_loss(model(x).float(), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model)
