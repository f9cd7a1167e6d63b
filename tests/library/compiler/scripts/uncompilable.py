"""An operation of the user's own that eager runs and Inductor cannot compile."""

import torch
from small_training import Net, data, finish, train
from torch import nn


@torch.library.custom_op("dlctest::broken", mutates_args=())
def broken(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@broken.register_fake
def _(x):
    raise ValueError("there is no shape for this")


broken.register_autograd(lambda context, gradient: gradient * 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return broken(self.net(x))


model = Model()
finish(train(model, data(9)), model)
