"""Adds up over all hosts, again and again, until each of them has found the file that ends it."""

import time
from pathlib import Path

import torch
import torch.distributed as dist

END = Path("/opt/ml/input/end")


def main() -> None:
    dist.init_process_group("gloo")
    step, told = 0, torch.zeros(1)
    while int(told) < dist.get_world_size():
        told = torch.tensor([float(END.exists())])
        dist.all_reduce(told)
        step += 1
        print(f"step {step} of rank {dist.get_rank()}", flush=True)
        time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
