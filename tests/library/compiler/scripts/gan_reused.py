"""A GAN whose generator's outputs live on while the discriminator steps, as in PyTorch's example of a DCGAN.

The way writes over memory of the step before.
"""

import own_ways
import torch
from small_training import Net, data, finish
from torch import nn

own_ways.use("reusing", at_once=True)
g, d = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)), Net()
g_steps, d_steps = torch.optim.SGD(g.parameters(), lr=0.05), torch.optim.SGD(d.parameters(), lr=0.05)
loss_of = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(4, 2), torch.zeros(4, 2)
losses = []
for real, noise in data(14, targets=8):
    d.zero_grad()
    loss_of(d(real), ones).backward()
    made = g(noise)
    loss_of(d(made.detach()), zeros).backward()
    d_steps.step()
    g.zero_grad()
    loss = loss_of(d(made), ones)
    loss.backward()
    g_steps.step()
    losses.append(loss.item())
finish(losses, g, d)
