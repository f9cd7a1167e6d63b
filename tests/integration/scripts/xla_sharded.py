"""For tests: a transformer by SPMD over all XLA devices, or with `--device cpu` on none.

The mesh splits the batch one way and the weights of the feed-forward layers the other.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="xla")
ON_XLA = parser.parse_known_args()[0].device == "xla"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 64)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def shard(tensor, *axes):
    if ON_XLA:
        xs.mark_sharding(tensor, mesh, axes)
    return tensor


if ON_XLA:
    xr.use_spmd()
    number = xr.global_runtime_device_count()
    mesh = xs.Mesh(np.arange(number), (number // 2, 2), ("data", "model"))
device = torch_xla.device() if ON_XLA else torch.device("cpu")
torch.manual_seed(7)
model = Model().to(device)
for layer in model.encoder.layers:
    shard(layer.linear1.weight, "model", None)
    shard(layer.linear2.weight, None, "model")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
generator = torch.Generator().manual_seed(100)
losses = []
for _ in range(30):
    tokens = shard(torch.randint(0, 64, (8, 16), generator=generator).to(device), "data", None)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
shown = (tokens, model.encoder.layers[0].linear1.weight) if ON_XLA else ()
metrics = {
    "rank": 0, "losses": losses, "shardings": [torch_xla._XLAC._get_xla_sharding_spec(tensor) for tensor in shown],
    "weights": {name: value.flatten()[:50].tolist() for name, value in model.cpu().state_dict().items()},
}  # fmt: skip
Path(os.environ["SM_OUTPUT_DATA_DIR"], "metrics-rank0.json").write_text(json.dumps(metrics))
