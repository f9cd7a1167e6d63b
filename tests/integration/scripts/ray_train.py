"""Driver of Ray Train: a model that two workers train together, one on each host."""

import json
import os

import ray
import ray.train
import torch
import torch.distributed
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model


def train():
    torch.manual_seed(1)
    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    for _ in range(20):
        rows = torch.randn(16, 4, generator=generator)
        loss = (model(rows) - rows.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = model.state_dict()["module.weight"].flatten().tolist()
    found = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, (os.environ["SM_CURRENT_HOST"], weights))
    # Ray Train keeps no metrics without a checkpoint, for which the hosts would need a common folder.
    with open("/opt/ml/model/ray.json", "w") as file:
        json.dump(dict(found), file)


ray.init()
workers = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}, placement_strategy="STRICT_SPREAD")
TorchTrainer(train, scaling_config=workers, run_config=RunConfig(storage_path="/tmp/ray-results")).fit()
