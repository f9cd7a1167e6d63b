"""For tests: one script for both groups. Data hosts make batches of numbered samples; ranks write which came."""

import argparse
import json
import os
import socket
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

SAMPLES, EPOCHS = 4000, 2
parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float, default=0.001)  # seconds of preprocessing
parser.add_argument("--fault", default="")  # what goes wrong: with sample 1234, or with the host algo-2
options = parser.parse_args()
HOST = os.environ["SM_CURRENT_HOST"]


def raises(index):
    raise ValueError(f"sample {index} cannot be read")


def hangs(index):
    time.sleep(3600)


def dies(index):
    os._exit(7)


WRONG = {
    "raises": raises, "hangs": hangs, "dies": dies,
    "is too large": lambda index: {"id": index, "value": torch.zeros(1 << 21)},
    "cannot travel": lambda index: {"id": index, "value": object()},
}  # fmt: skip


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(options.pause)
        if index == 1234 and options.fault in WRONG:
            return WRONG[options.fault](index)
        return {"id": index, "value": torch.full((8,), index, dtype=torch.bfloat16)}


def collate(samples):
    """The first sample that is not as the others are is a batch of its own kind."""
    odd = [sample for sample in samples if getattr(sample["value"], "shape", None) != (8,)]
    return odd[0] if odd else default_collate(samples)


def train():
    rank = int(os.environ.get("RANK", "0"))
    seen = []
    with RemoteLoader(deadline=8.0, patience=60.0) as loader:
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            ids = []
            for batch in loader:
                assert batch["value"].dtype is torch.bfloat16
                ids += batch["id"].tolist()
                if len(ids) == 320 and not epoch:
                    print("ten batches are here", flush=True)
            seen.append(ids)
    output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    output.mkdir(parents=True, exist_ok=True)
    (output / f"metrics-rank{rank}.json").write_text(json.dumps({"rank": rank, "epochs": seen}))


if dlc_runtime.cluster().is_training:
    train()
else:
    if HOST == "algo-2" and options.fault == "another token":
        os.environ["DLC_DATA_TOKEN"] = "of another job"
    if HOST == "algo-2" and options.fault == "port in use":
        taken = socket.create_server(("", 7800))
    serve(DataLoader(Numbers(), batch_size=32, shuffle=True, collate_fn=collate), workers=2, most_batch_bytes=1 << 22)
