"""Two models and two optimizers; the discriminator steps `argv[1]` times for each step of the generator."""

import sys

import torch
from small_training import data, finish
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
g, d = Generator(), Discriminator()
g_steps, d_steps = torch.optim.SGD(g.parameters(), lr=0.05), torch.optim.SGD(d.parameters(), lr=0.05)
loss_of = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(4, 1), torch.zeros(4, 1)
losses = []
for index, (real, _) in enumerate(data(14 * every)):
    noise = torch.randn(4, 8)
    d_steps.zero_grad()
    d_loss = loss_of(d(real), ones) + loss_of(d(g(noise).detach()), zeros)
    d_loss.backward()
    d_steps.step()
    losses.append(d_loss.item())
    if index % every == every - 1:
        g_steps.zero_grad()
        g_loss = loss_of(d(g(noise)), ones)
        g_loss.backward()
        g_steps.step()
        losses.append(g_loss.item())
finish(losses, g, d)
