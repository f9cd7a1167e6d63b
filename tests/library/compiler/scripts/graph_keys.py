"""Keys of graphs: the same for ranks that compile the same, and for no others."""

import os

import torch
from small_training import Net, data, finish

from dlc_runtime.compiler.pytorch.compile_once import graph_key


def key(net=None, shape=(4, 8), dtype=torch.float32, settings="default", grad=False, job="1"):
    os.environ["MASTER_PORT"] = job
    graph = torch.fx.symbolic_trace(net or Net())
    return graph_key(graph, [torch.zeros(shape, dtype=dtype, requires_grad=grad), 3], settings)


class Other(Net):
    def forward(self, x):
        return super().forward(x) * 2


keys = {
    "first": key(),
    "again": key(),
    "shape": key(shape=(5, 8)),
    "dtype": key(dtype=torch.float64),
    "settings": key(settings="reduce-overhead"),
    "grad": key(grad=True),
    "code": key(Other()),
    "job": key(job="2"),
}
finish([float(x.sum()) for x, _ in data(1)], keys=keys)
