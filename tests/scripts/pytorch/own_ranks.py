"""Starts its own ranks: nobody asks for a distribution, SM_HOSTS says who takes part, torch.multiprocessing spawns."""

import argparse
import json
import os

import report
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def worker(local_rank, args):
    host_rank = args.hosts.index(args.current_host)
    rank, world_size = host_rank * args.processes + local_rank, len(args.hosts) * args.processes
    os.environ["WORLD_SIZE"] = str(world_size)
    os.environ["RANK"] = str(rank)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group(backend=args.backend, rank=rank, world_size=world_size)
    torch.manual_seed(rank)
    digits = load_digits()
    images, labels = torch.tensor(digits["data"], dtype=torch.float32) / 16, torch.tensor(digits["target"])
    model = DistributedDataParallel(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(args.steps):
        chosen = torch.randint(0, 1500, (32,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    if rank == 0:
        with open(os.path.join(args.model_dir, "model.pth"), "wb") as f:
            torch.save(model.module.state_dict(), f)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model.module(images[1500:]), labels[1500:])
    report.write(rank, dist.get_world_size(), loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--backend", type=str, default="gloo")
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ["SM_HOSTS"]))
    parser.add_argument("--current-host", type=str, default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    mp.spawn(worker, args=(args,), nprocs=args.processes)
