"""transformers' Trainer: a small BERT from a configuration, text that is made here.

On the CPU; with `anywhere` on the device that transformers chooses.
"""

import os
import sys
from pathlib import Path

import small_training
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(
    vocab_size=64,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    num_labels=2,
)
torch.manual_seed(1)
tokens = torch.randint(0, 64, (48, 12))
rows = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] % 2)} for row in tokens]
model = BertForSequenceClassification(config)
arguments = TrainingArguments(
    output_dir=str(Path(os.environ["RESULTS"]) / "out"),
    per_device_train_batch_size=4,
    max_steps=10,
    logging_steps=1,
    report_to=[],
    use_cpu="anywhere" not in sys.argv,
    save_strategy="no",
    disable_tqdm=True,
    seed=3,
    learning_rate=1e-3,
)
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8])
trainer.train()
losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
small_training.finish([*losses, trainer.evaluate()["eval_loss"]], model.cpu(), device=str(arguments.device))
