"""A plain loop with a way of the test's own (argv[1]) from the first compiled step on; argv[2:]: what else there is."""

import os
import sys

import own_ways
import torch
from small_training import Net, data, finish
from torch import nn
from torch.utils.checkpoint import checkpoint

way, *more = sys.argv[1:]


class Again(Net):
    """Calls its body again in the backward, and a hook takes each gradient: nothing can be compared."""

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=True))


rank = int(os.environ.get("RANK", "0"))
own_ways.use("same" if "ranks" in more and rank == 0 else way, at_once=True)
if os.environ.get("DLC_COMPILER"):
    from dlc_runtime.compiler.pytorch import sampling

    sampling.SHARE = 0.5  # of a job of seconds
model = trained = Again() if "uncomparable" in more else Net()
if "uncomparable" in more:
    model.head.bias.register_post_accumulate_grad_hook(lambda value: None)
if "ranks" in more:
    torch.distributed.init_process_group("gloo")
    trained = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(trained.parameters(), lr=1e-2)
losses = []
for index, (x, y) in enumerate(data(400, seed=3 + rank)):
    own_ways.clock.now += own_ways.STEP
    if "shapes" in more and index % 20 == 19:
        x, y = x[:2], y[:2]
    if "frozen" in more and index == 30:
        model.head.bias.requires_grad_(False)
    optimizer.zero_grad()
    x = x.requires_grad_("uncomparable" in more)
    loss = nn.functional.mse_loss(trained(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
finish(losses, model)
if "ranks" in more:
    torch.distributed.destroy_process_group()
