"""Pre-trains a small BERT by masked words; goes on from the newest checkpoint in /opt/ml/checkpoints."""

import argparse
import os

import report
import text
import torch
from datasets import Dataset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in (logs or {}):
            print(f"[{state.global_step}/{state.max_steps}] train_loss={logs['loss']};")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--per-device-train-batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--mlm-probability", type=float, default=0.15)
    parser.add_argument("--gradient-checkpointing", type=lambda word: word == "True", default=False)
    parser.add_argument("--checkpoint-dir", type=str, default="/opt/ml/checkpoints")
    parser.add_argument("--model-dir", type=str, default=os.environ.get("SM_MODEL_DIR", "model"))
    return parser.parse_args()


def main():
    args = parse_args()
    texts, _ = text.reviews(300, seed=3)
    tokenizer = text.make_tokenizer(texts)
    dataset = Dataset.from_dict({"text": texts}).map(
        lambda batch: tokenizer(batch["text"], return_special_tokens_mask=True), batched=True, remove_columns=["text"]
    )
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    model = BertForMaskedLM(config)
    training_args = TrainingArguments(
        output_dir=args.checkpoint_dir,
        max_steps=args.max_steps,
        per_device_train_batch_size=args.per_device_train_batch_size,
        gradient_accumulation_steps=2,
        gradient_checkpointing=args.gradient_checkpointing,
        learning_rate=args.learning_rate,
        save_steps=10,
        save_total_limit=2,
        logging_steps=10,
        dataloader_num_workers=2,
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=dataset,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=args.mlm_probability),
        callbacks=[PrintLoss()],
    )
    last = get_last_checkpoint(args.checkpoint_dir) if os.path.isdir(args.checkpoint_dir) else None
    trainer.train(resume_from_checkpoint=last)
    if trainer.is_world_process_zero():
        model.save_pretrained(args.model_dir)
        tokenizer.save_pretrained(args.model_dir)

    model.eval()
    batch = tokenizer(texts[:32], padding=True, return_tensors="pt").to(training_args.device)
    with torch.no_grad():
        loss = model(**batch, labels=batch["input_ids"]).loss
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    report.write(
        training_args.process_index, training_args.world_size, loss,
        steps=trainer.state.global_step, losses=losses, continued=bool(last), device=str(training_args.device),
    )  # fmt: skip


if __name__ == "__main__":
    main()
