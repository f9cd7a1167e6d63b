"""Trains a small GPT-2 from scratch on text files; all settings are dataclasses that HfArgumentParser reads."""

import logging
import math
import os
from dataclasses import dataclass, field
from itertools import chain
from typing import Optional

import report
import text
import torch
from datasets import load_dataset
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    model_type: str = field(default="gpt2", metadata={"help": "a model type that is trained from scratch"})
    config_overrides: Optional[str] = field(default=None, metadata={"help": "n_embd=10,resid_pdrop=0.2"})


@dataclass
class DataTrainingArguments:
    train_file: Optional[str] = field(default=None, metadata={"help": "a text file"})
    validation_file: Optional[str] = field(default=None, metadata={"help": "a text file"})
    block_size: int = field(default=32)
    preprocessing_num_workers: Optional[int] = field(default=None)


def main():
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", level=logging.INFO)
    logger.warning(
        f"Process rank: {training_args.local_rank}, device: {training_args.device}, n_gpu: {training_args.n_gpu}, "
        f"distributed training: {training_args.parallel_mode.value == 'distributed'}"
    )
    set_seed(training_args.seed)

    files = {"train": data_args.train_file, "validation": data_args.validation_file}
    raw_datasets = load_dataset("text", data_files=files)
    tokenizer = text.make_tokenizer(raw_datasets["train"]["text"])

    config = CONFIG_MAPPING[model_args.model_type](
        vocab_size=len(tokenizer), bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id
    )
    if model_args.config_overrides is not None:
        config.update_from_string(model_args.config_overrides)
    model = AutoModelForCausalLM.from_config(config)
    logger.info(f"training from scratch, {sum(weights.numel() for weights in model.parameters())} weights")

    def group_texts(examples):
        """One long text, cut into blocks; the rest that fills no block is dropped."""
        joined = {key: list(chain(*examples[key])) for key in ("input_ids", "attention_mask")}
        size = data_args.block_size
        total = len(joined["input_ids"]) // size * size
        blocks = {key: [ids[i : i + size] for i in range(0, total, size)] for key, ids in joined.items()}
        blocks["labels"] = blocks["input_ids"].copy()
        return blocks

    with training_args.main_process_first(desc="dataset map tokenization"):
        tokenized = raw_datasets.map(
            lambda examples: tokenizer(examples["text"], return_token_type_ids=False), batched=True,
            num_proc=data_args.preprocessing_num_workers, remove_columns=["text"],
        )  # fmt: skip
        lm_datasets = tokenized.map(group_texts, batched=True)

    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=lm_datasets["train"] if training_args.do_train else None,
        eval_dataset=lm_datasets["validation"] if training_args.do_eval else None,
        **text.saved_with(tokenizer),
        data_collator=default_data_collator,
    )
    if training_args.do_train:
        result = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
        trainer.save_model()
        trainer.log_metrics("train", result.metrics)
        trainer.save_metrics("train", result.metrics)
        trainer.save_state()
    if training_args.do_eval:
        metrics = trainer.evaluate()
        metrics["perplexity"] = math.exp(metrics["eval_loss"])
        trainer.log_metrics("eval", metrics)
        trainer.save_metrics("eval", metrics)

    model.eval()
    block = torch.tensor(lm_datasets["validation"][:8]["input_ids"], device=training_args.device)
    with torch.no_grad():
        loss = model(input_ids=block, labels=block).loss
    report.write(
        training_args.process_index, training_args.world_size, loss, perplexity=metrics["perplexity"],
        steps=trainer.state.global_step, device=str(training_args.device), run_name=training_args.run_name,
        pid=os.getpid(),
    )  # fmt: skip


def _mp_fn(index):
    main()


if __name__ == "__main__":
    main()
