"""Trains BERT with Hugging Face's Trainer, as people write it: knows nothing of the compiler; writes times and losses.

usage: python trainer_job.py --steps 300 --seconds 30 --size base
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import shapes
import torch
import transformers
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

LOGGED = 5  # steps whose mean loss is logged


class Texts(Dataset):  # type: ignore[type-arg]
    """Random words; the same ones in each run."""

    def __init__(self, size: shapes.Size, count: int) -> None:
        self.size, self.count = size, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        dice = torch.Generator().manual_seed(number)
        words = torch.randint(self.size.vocabulary, (self.size.words,), generator=dice)
        return {"input_ids": words, "labels": words[0] % shapes.LABELS}


class Clock(TrainerCallback):
    """Takes the time from one step's end to the next, and ends the training when its seconds are over.

    It waits for no GPU, as no training does at each step; the Trainer does where it logs a loss.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds: list[float] = []
        self.losses: list[float] = []
        self._end = time.monotonic() + seconds
        self._last: float | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        now = time.perf_counter()
        if self._last is not None:
            self.seconds.append(now - self._last)
        self._last = now
        control.should_training_stop = control.should_training_stop or time.monotonic() > self._end

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--size", choices=shapes.SIZES)
    asked = parser.parse_args()
    size = shapes.SIZES[asked.size]
    on_gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=os.environ["SM_MODEL_DIR"], max_steps=asked.steps, per_device_train_batch_size=size.batch,
        bf16=on_gpu, report_to="none", save_strategy="no", logging_steps=LOGGED, lr_scheduler_type="constant",
        disable_tqdm=True,
    )  # fmt: skip
    transformers.set_seed(0)
    model = transformers.BertForSequenceClassification(shapes.with_dropout(shapes.bert(size), 0.0))
    clock = Clock(asked.seconds)
    data = Texts(size, asked.steps * size.batch)
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[clock]).train()
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    dtype = "bf16" if on_gpu else "fp32"
    found = {"seconds": clock.seconds, "losses": clock.losses, "peak_bytes": peak, "dtype": dtype}
    Path(os.environ["SM_OUTPUT_DATA_DIR"], "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
