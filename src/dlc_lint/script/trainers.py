"""Full names of the settings that trainers of other libraries take."""

from __future__ import annotations

TRAINING_ARGUMENTS = (
    "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig",
    "transformers.training_args.TrainingArguments",
)  # fmt: skip
