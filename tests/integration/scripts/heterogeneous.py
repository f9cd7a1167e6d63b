"""Hosts of the group "data" serve for ever; those of "dnn" train together: each step is one sum over all their ranks.

Arguments: --steps N (default: for ever), --ignore-sigterm (rank 1 of the training does)
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

STEP_SECONDS = 0.1


def serve() -> None:
    """What a data host does: it is told by the launcher when the training has ended."""
    print("serving data", flush=True)
    while True:
        time.sleep(1)


def train(steps: int, ignore_sigterm: bool) -> None:
    """Sum ones over the ranks, `steps` times."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if ignore_sigterm and rank == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for step in range(steps):
        total = torch.ones(1)
        dist.all_reduce(total)
        print(f"step {step} sum {int(total)} rank {rank}", flush=True)
        time.sleep(STEP_SECONDS)
    if rank == 0:
        (Path(os.environ["SM_MODEL_DIR"]) / "sum").write_text(str(int(total)))
    dist.destroy_process_group()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=sys.maxsize)
parser.add_argument("--ignore-sigterm", default="False")
arguments = parser.parse_args()
if os.environ["SM_CURRENT_INSTANCE_GROUP"] == "data":
    serve()
else:
    train(arguments.steps, arguments.ignore_sigterm == "True")
