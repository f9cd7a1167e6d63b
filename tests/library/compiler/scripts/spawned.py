"""Two ranks by torch.multiprocessing.spawn, with DistributedDataParallel."""

import os

import torch
from small_training import Net, data, finish, train


def work(rank, port):
    os.environ["RANK"] = str(rank)  # for finish(); set too late for anything that reads it at the start
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(7)
    model = torch.nn.parallel.DistributedDataParallel(Net())
    losses = train(model, data(10, seed=rank))
    finish(losses, model)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = store.port
    del store
    torch.multiprocessing.spawn(work, (port,), nprocs=2)
