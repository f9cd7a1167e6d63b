"""Fine-tunes a small BERT on movie reviews with the Trainer; settings come from argparse and the SM_* variables."""

import argparse
import logging
import os
import sys

import report
import text
import torch
from datasets import Dataset
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)


def compute_metrics(prediction):
    labels, found = prediction.label_ids, prediction.predictions.argmax(-1)
    precision, recall, f1, _ = precision_recall_fscore_support(labels, found, average="binary")
    return {"accuracy": accuracy_score(labels, found), "f1": f1, "precision": precision, "recall": recall}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    # hyperparameters sent by the client are passed as command-line arguments to the script
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--eval_batch_size", type=int, default=64)
    parser.add_argument("--warmup_steps", type=int, default=10)
    parser.add_argument("--model_name", type=str)
    parser.add_argument("--learning_rate", type=str, default="1e-3")
    # data, model and output directories
    parser.add_argument("--output_data_dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--n_gpus", type=str, default=os.environ["SM_NUM_GPUS"])
    args, _ = parser.parse_known_args()

    logger = logging.getLogger(__name__)
    logging.basicConfig(
        level=logging.getLevelName("INFO"),
        handlers=[logging.StreamHandler(sys.stdout)],
        format="%(asctime)s - %(name)s - %(levelname)s - %(message)s",
    )
    set_seed(7)

    texts, labels = text.reviews(400, seed=1)
    tokenizer = text.make_tokenizer(texts)
    held_out = text.reviews(64, seed=2)

    def tokenize(batch):
        return tokenizer(batch["text"], truncation=True)

    train_dataset = Dataset.from_dict({"text": texts, "label": labels}).map(tokenize, batched=True)
    test_dataset = Dataset.from_dict({"text": held_out[0], "label": held_out[1]}).map(tokenize, batched=True)
    logger.info(f"loaded train_dataset length is: {len(train_dataset)}")

    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, num_labels=2,
        id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1},
    )  # fmt: skip
    model = AutoModelForSequenceClassification.from_config(config)

    training_args = TrainingArguments(
        output_dir=args.model_dir,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.train_batch_size,
        per_device_eval_batch_size=args.eval_batch_size,
        warmup_steps=args.warmup_steps,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        report_to="tensorboard",
        logging_steps=5,
        learning_rate=float(args.learning_rate),
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        compute_metrics=compute_metrics,
        train_dataset=train_dataset,
        eval_dataset=test_dataset,
        **text.saved_with(tokenizer),
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()

    eval_result = trainer.evaluate(eval_dataset=test_dataset)
    if trainer.is_world_process_zero():
        with open(os.path.join(args.output_data_dir, "eval_results.txt"), "w") as writer:
            for key, value in sorted(eval_result.items()):
                writer.write(f"{key} = {value}\n")
    trainer.save_model(args.model_dir)

    batch = tokenizer(held_out[0], padding=True, return_tensors="pt").to(training_args.device)
    model.eval()
    with torch.no_grad():
        loss = model(**batch, labels=torch.tensor(held_out[1], device=training_args.device)).loss
    report.write(
        training_args.process_index, training_args.world_size, loss,
        accuracy=eval_result["eval_accuracy"], steps=trainer.state.global_step,
        device=str(training_args.device), model_name=args.model_name,
    )  # fmt: skip
