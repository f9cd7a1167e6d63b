"""The first step raises, as one without memory does, and the script goes on; each step calls another one inside."""

import contextlib

import torch
from small_training import Net, data, finish, train


class Wrapped(torch.optim.SGD):
    """As Horovod's optimizers: a step in a step of the same object."""

    failed = False

    def step(self, closure=None):
        if not Wrapped.failed:
            Wrapped.failed = True
            raise MemoryError("of the test")
        return super().step(closure)


model = Net()
optimizer = Wrapped(model.parameters(), lr=1e-2)
with contextlib.suppress(MemoryError):
    train(model, data(1), optimizer)
finish(train(model, data(12), optimizer), model)
