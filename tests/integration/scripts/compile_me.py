"""For tests: a small transformer in a plain loop, over DistributedDataParallel where there are several ranks.

It knows nothing of a compiler. What each rank saw is in metrics-rank<N>.json.
"""

import json
import os
from pathlib import Path

import torch
from torch import nn

STEPS = 30
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 64)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def batches():
    generator = torch.Generator().manual_seed(100 + RANK)
    for _ in range(STEPS):
        yield torch.randint(0, 64, (4, 16), generator=generator)


torch.manual_seed(7)
model = Model()
trained = model
if WORLD > 1:
    torch.distributed.init_process_group("gloo")
    trained = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
losses = []
for tokens in batches():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(trained(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = {name: value.flatten()[:50].tolist() for name, value in model.state_dict().items()}
output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
output.mkdir(parents=True, exist_ok=True)
(output / f"metrics-rank{RANK}.json").write_text(
    json.dumps({"rank": RANK, "world_size": WORLD, "losses": losses, "weights": weights})
)
if WORLD > 1:
    torch.distributed.destroy_process_group()
