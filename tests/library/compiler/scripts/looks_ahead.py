"""Trains; after argv[2] steps a copy of the model trains for three steps, as a search for a learning rate does."""

import copy
import sys

import own_ways
import torch
from small_training import Net, data, finish
from torch import nn

own_ways.use("same")
if sys.argv[1] == "slow-eager":
    forward = Net.forward

    def count(self, x):
        if not torch.compiler.is_compiling():
            own_ways.clock.now += own_ways.STEP
        return forward(self, x)

    Net.forward = count
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses = []


def train(trained, its_optimizer, batches):
    for x, y in batches:
        own_ways.clock.now += own_ways.STEP
        its_optimizer.zero_grad()
        loss = nn.functional.mse_loss(trained(x), y)
        loss.backward()
        its_optimizer.step()
        losses.append(loss.item())


train(model, optimizer, data(int(sys.argv[2])))
copied = copy.deepcopy(model)
trial = torch.optim.SGD(copied.parameters(), lr=1e-1)
train(copied, trial, data(3, seed=5))
train(model, optimizer, data(20, seed=6))
finish(losses, model, copied)
