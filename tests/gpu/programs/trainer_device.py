"""Trains a small model for a few steps with the Trainer and writes down on which device it was."""

import argparse
import json
import os
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, inputs, labels=None):
        logits = self.linear(inputs)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    steps = parser.parse_args().steps
    dataset = [{"inputs": torch.full((4,), float(number % 2)), "labels": number % 2} for number in range(64)]
    folder = os.environ["SM_OUTPUT_DATA_DIR"]
    arguments = TrainingArguments(
        output_dir=folder, max_steps=steps, per_device_train_batch_size=4, report_to="none", save_strategy="no"
    )
    model = Model()
    trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
    trainer.train()
    found = {
        "device": str(arguments.device),
        "weights_on": sorted({weights.device.type for weights in model.parameters()}),
        "accelerator": str(Accelerator().device),
        "steps": trainer.state.global_step,
    }
    Path(folder, "found.json").write_text(json.dumps(found))
