"""Trains for two minutes with the Trainer of transformers, and prints each step with the time, as its own bar does."""

import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

STEPS, SECONDS = 240, 0.5


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, labels=None):
        found = self.linear(x)
        return {"loss": torch.nn.functional.cross_entropy(found, labels), "logits": found}


class Bar(TrainerCallback):
    def on_step_end(self, arguments, state, control, **named):
        print(f"bar {state.global_step} of {state.max_steps} at {time.time():.1f}", flush=True)
        time.sleep(SECONDS)


data = [{"x": torch.ones(3), "labels": torch.tensor(index % 2)} for index in range(64)]
arguments = TrainingArguments(
    "/tmp/trained", max_steps=STEPS, per_device_train_batch_size=4, report_to=[], disable_tqdm=True, use_cpu=True
)
Trainer(Model(), arguments, train_dataset=data, callbacks=[Bar()]).train()
