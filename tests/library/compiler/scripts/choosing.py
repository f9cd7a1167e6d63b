"""A plain loop of argv[2] steps with a way of the test's own (argv[1]); argv[3] says what else there is."""

import sys

import own_ways
import torch
from small_training import data, finish
from torch import nn

way, steps, *more = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.two(torch.tanh(self.one(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 2)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(0.5 if "dropout" in more else 0.0)
        self.calls, self.kept = 0, []

    def forward(self, x):
        if "counts" in more:
            self.calls += 1
        if "slow-eager" in more and not torch.compiler.is_compiling():
            own_ways.clock.now += own_ways.STEP
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
            if "keeps" in more:
                self.kept.append(x.square().mean())
        return self.last(self.drop(self.norm(x)))


own_ways.use(way, wait=2 if "uneven" in more else 0)
rank = 0
model = trained = Model()
if "ranks" in more:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    if "uneven" in more:
        steps = 60 if rank else 20  # rank 0 ends before anything is decided
    else:
        trained = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(trained.parameters(), lr=1e-2)
losses = []
for index, (x, y) in enumerate(data(8, seed=3 + rank) * (steps // 8 + 1)):
    if index == steps:
        break
    own_ways.clock.now += own_ways.STEP
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(trained(x), y) + 0.01 * sum(model.kept)
    model.kept.clear()
    try:
        loss.backward()
    except torch.cuda.OutOfMemoryError:
        if "catches" not in more:
            raise
        continue
    optimizer.step()
    losses.append(loss.item())
finish(losses, model, calls=model.calls)
if "ranks" in more:
    torch.distributed.destroy_process_group()
