"""Trains until it is told to stop, then some steps more, and saves: with data loading processes that must live as long.

Under torchrun the ranks agree on when to stop, as they must where all of them meet to save.
"""

import os
import signal
import sys
import time
from pathlib import Path

STEPS_MORE = 5
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("HOROVOD_RANK", "0")


class Alone:
    """No other rank to agree with."""

    def any_was_told(self) -> bool:
        return bool(told)

    def meet(self) -> None:
        pass


class Together:
    """Ranks of torch.distributed."""

    def __init__(self) -> None:
        import torch.distributed

        self._distributed = torch.distributed
        self._distributed.init_process_group("gloo")

    def any_was_told(self) -> bool:
        import torch

        flag = torch.tensor([float(bool(told))])
        self._distributed.all_reduce(flag)
        return bool(flag.item())

    def meet(self) -> None:
        self._distributed.barrier()


def batches():
    """Without end; through worker processes where there is PyTorch."""
    try:
        import torch
        from torch.utils.data import DataLoader, IterableDataset
    except ImportError:
        while True:
            time.sleep(0.05)
            yield None

    class Endless(IterableDataset):
        def __iter__(self):
            while True:
                time.sleep(0.05)
                yield torch.zeros(1)

    yield from DataLoader(Endless(), batch_size=1, num_workers=2)


ranks = Together() if "TORCHELASTIC_RUN_ID" in os.environ else Alone()
steps_left = None
for step, _ in enumerate(batches()):
    if step == 3:
        print("ready to be stopped", flush=True)
    if steps_left is None and ranks.any_was_told():
        steps_left = STEPS_MORE
    elif steps_left is not None:
        steps_left -= 1
    if steps_left == 0:
        break
time.sleep(float(os.environ.get("SAVE_SECONDS", "1")))
ranks.meet()
folder = Path("/opt/ml/checkpoints")
folder.mkdir(exist_ok=True)
(folder / f"rank-{rank}").write_text(str(len(told)))
sys.exit(0)
