"""Trains a small convolutional network on handwritten digits with PyTorch, in one process or in many under torchrun.

The data are scikit-learn's digits (1797 grey images of 8x8 pixels, 10 classes), shipped with that package, or a file
digits.npz (arrays `images` [N, 8, 8] with values 0..16 and `labels` [N]) in the channel "training".
On SIGTERM the state is saved after the running epoch, and the next start goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANK = int(os.environ.get("RANK", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
ENDED_BY_SIGTERM = 128 + signal.SIGTERM


def parse_arguments() -> argparse.Namespace:
    """Hyperparameters arrive as `--name value`; where to read and write comes from the SM_* variables."""

    def switch(text: str) -> bool:  # a hyperparameter has a value, so `--compile True` must work as `--compile` does
        return text.lower() in ("1", "true", "yes")

    environment = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images per process and step")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--compile", type=switch, nargs="?", const=True, default=False, help="use torch.compile")
    parser.add_argument("--training", type=Path, default=environment("SM_CHANNEL_TRAINING"))
    parser.add_argument("--model-dir", type=Path, default=environment("SM_MODEL_DIR", "model"))
    parser.add_argument("--output-data-dir", type=Path, default=environment("SM_OUTPUT_DATA_DIR", "output"))
    parser.add_argument("--checkpoint-dir", type=Path, default="/opt/ml/checkpoints")
    return parser.parse_args()


def read_digits(channel: Path | None) -> tuple[TensorDataset, TensorDataset]:
    """The training and the held-out set (a fifth): images [N, 1, 8, 8] in 0..1, labels [N]; the same everywhere."""
    data = np.load(channel / "digits.npz") if channel else load_digits()
    images = torch.tensor(data["images"], dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data["labels" if channel else "target"], dtype=torch.int64)
    chosen, held_out = train_test_split(np.arange(len(labels)), test_size=0.2, random_state=0, stratify=labels)
    return TensorDataset(images[chosen], labels[chosen]), TensorDataset(images[held_out], labels[held_out])


def build_network() -> nn.Module:
    """Images [N, 1, 8, 8] to logits [N, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25), nn.Linear(64 * 4 * 4, 10),
    )  # fmt: skip


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, device: torch.device) -> float:
    """One pass over this process's share; returns its mean loss."""
    model.train()
    losses = []
    for images, labels in loader:
        loss = cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.no_grad()
def evaluate(model: nn.Module, held_out: TensorDataset, device: torch.device) -> tuple[float, float]:
    """Accuracy and mean loss over the whole held-out set: every process that holds the same weights gets the same."""
    model.eval()
    images, labels = (tensor.to(device) for tensor in held_out.tensors)
    logits = model(images)
    return (logits.argmax(1) == labels).float().mean().item(), cross_entropy(logits, labels).item()


def any_process_says(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set anywhere: all must leave the loop at the same epoch, or the others wait for ever."""
    value: Tensor = torch.tensor(int(flag), device=device)
    if WORLD_SIZE > 1:
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return bool(value.item())


def train(arguments: argparse.Namespace, device: torch.device) -> int:
    """Train, then write the model (rank 0) and the metrics (every rank); returns the exit code."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    torch.manual_seed(arguments.seed + RANK)  # dropout differs by rank; the first weights are rank 0's everywhere
    training, held_out = read_digits(arguments.training)
    sampler = DistributedSampler(training, WORLD_SIZE, RANK, seed=arguments.seed)
    loader = DataLoader(training, arguments.batch_size, sampler=sampler, drop_last=True)

    network = build_network().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.learning_rate)
    checkpoint, first_epoch = arguments.checkpoint_dir / "digits.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch = state["epoch"]
        print(f"continuing after epoch {first_epoch} of {checkpoint}")
    model: nn.Module = DistributedDataParallel(network) if WORLD_SIZE > 1 else network
    model = torch.compile(model) if arguments.compile else model

    for epoch in range(first_epoch + 1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        training_loss = train_epoch(model, optimizer, loader, device)
        accuracy, loss = evaluate(network, held_out, device)
        print(f"epoch={epoch} training_loss={training_loss:.4f} loss={loss:.4f} accuracy={accuracy:.4f}")
        if any_process_says(bool(stopping), device):
            if LOCAL_RANK == 0:  # every host keeps one, since a host sees no other host's folders
                arguments.checkpoint_dir.mkdir(parents=True, exist_ok=True)
                state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, checkpoint)
                print(f"stopped by SIGTERM: saved {checkpoint}")
            return ENDED_BY_SIGTERM

    accuracy, loss = evaluate(network, held_out, device)
    metrics = {"rank": RANK, "world_size": WORLD_SIZE, "device": str(device), "accuracy": accuracy, "loss": loss}
    arguments.output_data_dir.mkdir(parents=True, exist_ok=True)
    (arguments.output_data_dir / f"metrics-rank{RANK}.json").write_text(json.dumps(metrics))
    if RANK == 0:
        arguments.model_dir.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), arguments.model_dir / "model.pt")
    print(f"done: accuracy={accuracy:.4f} loss={loss:.6f} rank={RANK} of {WORLD_SIZE}")
    return 0


def main() -> int:
    """Join the process group where there is one, and train."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", LOCAL_RANK) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if WORLD_SIZE > 1:
        dist.init_process_group("nccl" if cuda else "gloo")
    exit_code = train(parse_arguments(), device)
    if WORLD_SIZE > 1:
        dist.destroy_process_group()
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
