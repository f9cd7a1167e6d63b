"""Lightning's Trainer over a RemoteLoader."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from recorded import TOLD, Recorded, loader


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = Recorded()

    def training_step(self, batch: Any, _index: int) -> Any:
        return self.inner(**batch)["loss"]

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def train_dataloader(self) -> Any:
        return loader(tail="drop")


module = Module()
world, stop = TOLD["world"], TOLD.get("stop_at")
saves = lightning.pytorch.callbacks.ModelCheckpoint(TOLD["folder"], "place", every_n_train_steps=stop)
trainer = lightning.Trainer(
    max_epochs=TOLD.get("epochs", 1),
    max_steps=stop or -1,
    callbacks=[saves] if stop else [],
    accelerator="cpu",
    devices=world,
    strategy="ddp" if world > 1 else "auto",
    logger=False,
    enable_checkpointing=stop is not None,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, ckpt_path=TOLD.get("resume"))
module.inner.write({"steps": trainer.global_step, "length": trainer.num_training_batches})
