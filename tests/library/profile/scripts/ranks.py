"""Two ranks that the script starts itself, as `torch.multiprocessing.spawn` does it: no variable names their rank."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def train(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    for (x,) in DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=4):
        model(x).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    import sys

    torch.multiprocessing.start_processes(train, args=(sys.argv[1],), nprocs=2, start_method="fork")
