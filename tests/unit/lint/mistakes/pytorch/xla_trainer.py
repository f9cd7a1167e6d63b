"""The Trainer on an XLA device."""

import torch_xla  # the Trainer takes its device
from datasets import load_dataset
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
arguments = TrainingArguments(
    "out",
    optim="adamw_torch_fused",  # mistake: DLC127
    logging_steps=50,
    save_steps=1000,
)
more = TrainingArguments("out-more", logging_steps=50)  # mistake: DLC127
trainer = Trainer(
    model=AutoModelForTokenClassification.from_pretrained("bert-base-cased"),
    args=arguments,
    train_dataset=load_dataset("conll2003", split="train"),
    data_collator=DataCollatorForTokenClassification(tokenizer),  # mistake: DLC101
)
print(torch_xla.__version__, more)
trainer.train()
