"""A gradient penalty on the critic, from step argv[1] on; the other model has none."""

import sys

import torch
from small_training import Net, data, finish
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


first = int(sys.argv[1])
net, critic = Net(), Critic()
optimizer = torch.optim.SGD([*net.parameters(), *critic.parameters()], lr=0.01)
losses = []
for index, (x, y) in enumerate(data(12)):
    optimizer.zero_grad()
    x = x.requires_grad_()
    value = critic(x).sum()
    loss = value + nn.functional.mse_loss(net(x), y)
    if index >= first:
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        loss = loss + ((gradient.norm(dim=1) - 1) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, net, critic)
