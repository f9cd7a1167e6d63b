"""Trains a small BERT or GPT with the Trainer of transformers. The job says whether it is compiled."""

from __future__ import annotations

import pytorch_models
import reference_text
import settings
from transformers import Trainer, TrainingArguments, default_data_collator, set_seed


def main() -> None:
    arguments = settings.parse_arguments(__doc__)
    set_seed(arguments.seed)
    tokenizer, blocks, held_out = reference_text.read_blocks(arguments.length, arguments.blocks)
    training, tests = (
        pytorch_models.Examples(arguments.model, part, tokenizer.mask_token_id) for part in (blocks, held_out)
    )
    trainer = Trainer(
        model=pytorch_models.build(arguments.model, len(tokenizer), arguments.length),
        args=TrainingArguments(
            output_dir=str(arguments.output_data_dir / "trainer"),
            num_train_epochs=arguments.epochs,
            per_device_train_batch_size=arguments.batch_size,
            per_device_eval_batch_size=arguments.batch_size,
            learning_rate=arguments.learning_rate,
            dataloader_drop_last=True,  # a last batch of another size would be compiled on its own
            logging_steps=10,  # rarely: reading the loss waits for the device
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=arguments.seed,
        ),
        train_dataset=training,
        eval_dataset=tests,
        data_collator=default_data_collator,
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    test_loss = trainer.evaluate()["eval_loss"]
    if trainer.is_world_process_zero():
        trainer.save_model(str(arguments.model_dir))
        tokenizer.save_pretrained(arguments.model_dir)
    settings.write_metrics(arguments, trainer.args.process_index, losses, test_loss)


if __name__ == "__main__":
    main()
