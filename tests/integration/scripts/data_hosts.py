"""For tests: one script for both groups. Data hosts make batches of numbered samples; ranks write which came."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

SAMPLES, EPOCHS = 4000, 2
parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float, default=0.001)  # seconds of preprocessing
parser.add_argument("--broken", type=int, default=-1)  # the sample that cannot be read
options = parser.parse_args()


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(options.pause)
        if index == options.broken:
            raise ValueError(f"sample {index} cannot be read")
        return {"id": index, "value": torch.full((8,), index, dtype=torch.bfloat16)}


def train():
    rank = int(os.environ.get("RANK", "0"))
    seen = []
    with RemoteLoader() as loader:
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
    serve(DataLoader(Numbers(), batch_size=32, shuffle=True), workers=2)
