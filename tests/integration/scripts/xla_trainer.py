"""For tests: the Trainer of transformers as it comes: device and optimizer are what transformers chooses."""

import json
import os
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
torch.manual_seed(1)
tokens = torch.randint(0, 32, (48, 12)) + 32 * (torch.arange(48) % 2).unsqueeze(1)  # the label says which words
rows = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] > 31)} for row in tokens]
config = BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
)  # fmt: skip
model = BertForSequenceClassification(config)
arguments = TrainingArguments(
    output_dir=str(output / "trainer"), per_device_train_batch_size=4, max_steps=24, logging_steps=1, report_to="none",
    save_steps=12, disable_tqdm=True, seed=3, learning_rate=5e-3,
)  # fmt: skip
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8])
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
metrics = {
    "rank": 0, "device": str(arguments.device), "losses": [*losses, trainer.evaluate()["eval_loss"]],
    "weights": {name: value.flatten()[:50].tolist() for name, value in model.cpu().state_dict().items()},
    "checkpoints": sorted(folder.name for folder in (output / "trainer").glob("checkpoint-*")),
}  # fmt: skip
(output / "metrics-rank0.json").write_text(json.dumps(metrics))
