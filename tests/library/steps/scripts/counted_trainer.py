"""Trains with the Trainer, and again from a checkpoint; the launcher's reader has to see each of its steps."""

import os
import sys

import dlc_runtime.steps.import_hook  # noqa: F401 - before torch, as a line in the images does

import torch  # isort: skip

from transformers import Trainer, TrainerCallback, TrainingArguments

from launch.supervision.progress import read_first

FOLDER = os.environ["DLC_STEPS_DIR"]
CPU = "use_cpu" if "use_cpu" in TrainingArguments.__dataclass_fields__ else "no_cuda"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, labels=None):
        found = self.linear(x)
        return {"loss": torch.nn.functional.cross_entropy(found, labels), "logits": found}


class Compare(TrainerCallback):
    def on_step_end(self, arguments, state, control, **named):
        found = read_first(FOLDER)
        assert found.step == state.global_step, (found, state.global_step)


data = [{"x": torch.ones(3), "labels": torch.tensor(index % 2)} for index in range(64)]
arguments = TrainingArguments(
    FOLDER + "/out", num_train_epochs=3, per_device_train_batch_size=4, gradient_accumulation_steps=2,
    save_steps=14, report_to=[], disable_tqdm=True, **{CPU: True},
)  # fmt: skip
resumed = {"resume_from_checkpoint": f"{FOLDER}/out/checkpoint-14"} if sys.argv[1:] == ["resume"] else {}
Trainer(Model(), arguments, train_dataset=data, callbacks=[Compare()]).train(**resumed)
found = read_first(FOLDER)
print(found.steps, found.step, found.total_steps, found.epoch)
