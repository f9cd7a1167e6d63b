"""For tests: one script for both groups. Data hosts make batches of numbered samples; ranks write which came.

A batch says which program made it, for it may be started again. What a rank was given stands in taken-rank<N>.txt at
once, so that it is known of a rank that is killed too; without torchrun a host is a rank.
"""

import argparse
import json
import logging
import os
import random
import socket
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import default_collate  # torch.utils.data has it since PyTorch 1.11

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

SAMPLES, EPOCHS = 4000, 2
parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float, default=0.001)  # seconds of preprocessing
parser.add_argument("--take", type=float, default=0.0)  # seconds of training on a batch
parser.add_argument("--numbers", type=int, default=8)  # in a sample, each of two bytes
parser.add_argument("--fault", default="")  # what goes wrong: with sample 1234, each batch, or the host algo-2
parser.add_argument("--loader", default="{}")  # JSON: arguments of RemoteLoader
parser.add_argument("--hold", type=int, default=0)  # 1: after ten batches a rank waits for the file GO
parser.add_argument("--stop", type=int, default=0)  # 1: no launcher ends the data hosts, so the first rank does
options = parser.parse_args()
HOST = os.environ["SM_CURRENT_HOST"]
GO = Path("/opt/ml/input/go")
PROGRAM = f"{HOST}:{os.urandom(8).hex()}"
LEAK = 24 << 20  # bytes of each batch
leaked = []


def raises(index):
    raise ValueError(f"sample {index} cannot be read")


def hangs(index):
    time.sleep(3600)


def dies(index):
    os._exit(7)


WRONG = {
    "raises": raises, "hangs": hangs, "dies": dies,
    "is too large": lambda index: {"id": index, "value": torch.zeros(1 << 23)},
    "cannot travel": lambda index: {"id": index, "value": object()},
}  # fmt: skip


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(options.pause)
        if index == 1234 and options.fault in WRONG:
            return WRONG[options.fault](index)
        return {"id": index, "value": torch.full((options.numbers,), index, dtype=torch.bfloat16)}


def collate(samples):
    """The first sample that is not as the others are is a batch of its own kind."""
    odd = [sample for sample in samples if getattr(sample["value"], "shape", None) != (options.numbers,)]
    if odd:
        return odd[0]
    batch = {**default_collate(samples), "program": PROGRAM}
    if options.fault == "leaks":
        leaked.append(b"x" * LEAK)
    if options.fault == "is not deterministic":
        chance = random.SystemRandom()  # not the generator that is seeded for each batch
        size = chance.randint(1, 10_000)
        batch["value"] = torch.full((size,), chance.randint(0, 99), dtype=torch.bfloat16)
        batch["said"] = (size, int(batch["value"][0]))
    return batch


def memory(field):
    """Of this process, in bytes: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def train():
    rank = int(os.environ.get("RANK", dlc_runtime.cluster().rank))
    output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    output.mkdir(parents=True, exist_ok=True)
    seen, programs = [], {}
    settings = {"deadline": 8.0, "patience": 60.0, **json.loads(options.loader)}
    with RemoteLoader(**settings) as loader, open(output / f"taken-rank{rank}.txt", "w") as taken:
        print(f"an epoch is {len(loader)} batches", flush=True)
        before = memory("VmRSS")
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            ids = []
            for batch in loader:
                assert batch["value"].dtype is torch.bfloat16
                if "said" in batch:
                    assert (len(batch["value"]), *batch["value"].unique().tolist()) == batch["said"]
                ids += batch["id"].tolist()
                programs[batch["program"]] = programs.get(batch["program"], 0) + 1
                print(epoch, *batch["id"].tolist(), file=taken, flush=True)
                if len(ids) == 320:
                    print("ten batches are here", *(["again"] if epoch else []), flush=True)
                    while options.hold and not GO.exists():
                        time.sleep(0.1)
                time.sleep(options.take)
            seen.append(ids)
        if options.stop and rank == 0:
            loader.stop_servers()
    told = {"rank": rank, "epochs": seen, "programs": programs, "grew": memory("VmHWM") - before}
    (output / f"metrics-rank{rank}.json").write_text(json.dumps(told))


if dlc_runtime.cluster().is_training:
    train()
else:
    print(f"the clock says {time.time():.0f}", flush=True)
    logging.basicConfig()
    logging.getLogger("dlc.dataservice").setLevel(logging.INFO)  # it says when it serves
    if HOST == "algo-2" and options.fault == "another token":
        os.environ["DLC_DATA_TOKEN"] = "of another job"
    if HOST == "algo-2" and options.fault == "port in use":
        taken = socket.create_server(("", 7800))
    serve(DataLoader(Numbers(), batch_size=32, shuffle=True, collate_fn=collate), workers=2, most_batch_bytes=1 << 24)
