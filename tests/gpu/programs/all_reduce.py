"""A process per GPU, started by torchrun: NCCL's collectives, checked, and a step of DistributedDataParallel.

Prints one line of JSON on rank 0: world size, NCCL's version, and what each collective gave.
"""

import json
import os

import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel

LENGTH = 1 << 20  # elements; enough that NCCL splits it over its channels

rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
torch.cuda.set_device(local)
distributed.init_process_group("nccl")

summed = torch.full((LENGTH,), float(rank + 1), device="cuda")
distributed.all_reduce(summed)
sent = torch.full((LENGTH,), float(rank), device="cuda")
distributed.broadcast(sent, src=world - 1)
gathered = [torch.empty(1, device="cuda") for _ in range(world)]
distributed.all_gather(gathered, torch.tensor([float(rank)], device="cuda"))

torch.manual_seed(0)  # the same model everywhere, other data on each rank
model = DistributedDataParallel(torch.nn.Linear(4, 1, bias=False).cuda(), device_ids=[local])
model(torch.full((1, 4), float(rank + 1), device="cuda")).sum().backward()
gradient = model.module.weight.grad

if rank == 0:
    found = {
        "world": world,
        "nccl": torch.cuda.nccl.version(),
        "all_reduce": sorted(set(summed.tolist())),
        "broadcast": sorted(set(sent.tolist())),
        "all_gather": [float(each) for each in gathered],
        "gradient": sorted(set(gradient.flatten().tolist())),
    }
    print(json.dumps(found))
distributed.destroy_process_group()
