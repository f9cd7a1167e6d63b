"""Handwritten digits with Lightning, which requirements.txt brings; under torchrun it trains on all hosts."""

import argparse
import json
import os

import lightning as L
import report
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Digits(L.LightningModule):
    def __init__(self, learning_rate=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images):
        return self.network(images)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        logits = self(images)
        self.log("val_loss", nn.functional.cross_entropy(logits, labels), sync_dist=True)
        self.log("val_acc", (logits.argmax(1) == labels).float().mean(), sync_dist=True, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


class DigitsData(L.LightningDataModule):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage):
        digits = load_digits()
        images = torch.tensor(digits["data"], dtype=torch.float32) / 16
        dataset = TensorDataset(images, torch.tensor(digits["target"]))
        self.train, self.held_out = random_split(dataset, [1500, 297], torch.Generator().manual_seed(1))

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True, num_workers=1)

    def val_dataloader(self):
        return DataLoader(self.held_out, batch_size=99)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--output_data_dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    args = parser.parse_args()

    L.seed_everything(11)
    num_nodes = len(json.loads(os.environ["SM_HOSTS"]))
    devices = max(1, int(os.environ["SM_NUM_GPUS"]))
    checkpoint = ModelCheckpoint(dirpath=args.model_dir, monitor="val_loss", save_last=True)
    trainer = L.Trainer(
        max_epochs=args.epochs, accelerator="auto", devices=devices, num_nodes=num_nodes,
        strategy="ddp" if num_nodes * devices > 1 else "auto", callbacks=[checkpoint],
        default_root_dir=args.output_data_dir, enable_progress_bar=False, log_every_n_steps=10,
    )  # fmt: skip
    model = Digits(args.learning_rate)
    data = DigitsData(args.batch_size)
    trainer.fit(model, data)

    images, labels = (torch.stack(part) for part in zip(*(data.held_out[index][:2] for index in range(100))))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model.cpu()(images), labels).item()
    accuracy = trainer.callback_metrics["val_acc"].item()
    report.write(trainer.global_rank, trainer.world_size, loss, steps=trainer.global_step, accuracy=accuracy)
