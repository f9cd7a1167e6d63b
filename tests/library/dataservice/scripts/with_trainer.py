"""Hugging Face's Trainer over a RemoteLoader."""

from __future__ import annotations

from typing import Any

import transformers
from packaging.version import Version
from recorded import TOLD, Recorded, loader
from transformers import Trainer, TrainerCallback, TrainingArguments


class RemoteTrainer(Trainer):  # type: ignore[misc]
    def get_train_dataloader(self) -> Any:
        return loader(tail="drop")


class StopAt(TrainerCallback):  # type: ignore[misc]
    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = control.should_training_stop = state.global_step == TOLD.get("stop_at")


class SetEpoch(TrainerCallback):  # type: ignore[misc]
    """What docs/heterogeneous.md asks for with transformers 5.0 to 5.18."""

    def on_epoch_begin(self, _args: Any, state: Any, _control: Any, train_dataloader: Any, **_: Any) -> None:
        train_dataloader.set_epoch(int(state.epoch))


sets_epoch = Version("5.0") <= Version(transformers.__version__) < Version("5.19")
arguments = TrainingArguments(
    output_dir=f"{TOLD['folder']}/checkpoints",
    num_train_epochs=TOLD.get("epochs", 1),
    gradient_accumulation_steps=TOLD.get("accumulate", 1),
    use_cpu=True,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    remove_unused_columns=False,
)
model = Recorded()
trainer = RemoteTrainer(model=model, args=arguments, callbacks=[StopAt(), SetEpoch()] if sets_epoch else [StopAt()])
trainer.train(resume_from_checkpoint=TOLD.get("resume"))
model.write({"steps": trainer.state.global_step, "length": len(trainer.callback_handler.train_dataloader)})
