"""Trains on handwritten digits whose preparation costs more than the training step, with PyTorch.

One switch: has the job a data group beside the group that trains, its hosts prepare the images, and the training host
takes them over the network. Without groups a DataLoader prepares them where they are trained on. The data are
scikit-learn's digits, which come with that package.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
SIDE = 32  # pixels
HELD_OUT = 5  # every fifth image


def parse_arguments() -> argparse.Namespace:
    """Hyperparameters arrive as `--name value`, on the data hosts too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="images per process and step")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--blurs", type=int, default=20, help="how much work an image is")
    parser.add_argument("--workers", type=int, default=2, help="processes that prepare images, on each host that does")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR", "model"))
    parser.add_argument("--output-data-dir", type=Path, default=os.environ.get("SM_OUTPUT_DATA_DIR", "output"))
    return parser.parse_args()


def read_digits(held_out: bool) -> tuple[Tensor, Tensor]:
    """Images [N, 1, SIDE, SIDE] in 0..1, and labels [N]; the same on every host."""
    digits = load_digits()
    chosen = (torch.arange(len(digits.target)) % HELD_OUT == 0) == held_out
    images = torch.tensor(digits.images, dtype=torch.float32)[chosen].unsqueeze(1) / 16
    return functional.interpolate(images, size=(SIDE, SIDE), mode="bilinear"), torch.tensor(digits.target)[chosen]


class AugmentedDigits(Dataset[dict[str, Any]]):
    """Every image turned, scaled and blurred anew: what keeps the CPUs busy."""

    def __init__(self, blurs: int) -> None:
        self.images, self.labels = read_digits(held_out=False)
        self.blurs = blurs
        weights = torch.exp(-4 * torch.arange(-5.0, 6.0) ** 2)
        self.kernel = (weights[:, None] * weights / weights.sum() ** 2)[None, None]
        self.host = dlc_runtime.cluster().host

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The image as bytes: a quarter of what floats would send over the network."""
        angle, scale = (torch.rand(2) * 2 - 1).tolist()
        image = turned(self.images[index : index + 1], angle * math.pi / 12, 1 + scale / 10)
        for _ in range(self.blurs):
            image = functional.conv2d(image, self.kernel, padding=5)
        image = image / image.amax().clamp(min=1e-6)
        return {"image": (image[0] * 255).to(torch.uint8), "label": self.labels[index], "host": self.host}


def turned(image: Tensor, angle: float, scale: float) -> Tensor:
    """The image [1, 1, H, W] turned by an angle and scaled."""
    sine, cosine = math.sin(angle) * scale, math.cos(angle) * scale
    grid = functional.affine_grid(torch.tensor([[[cosine, -sine, 0], [sine, cosine, 0]]]), list(image.shape), False)
    return functional.grid_sample(image, grid, align_corners=False)


def build_network() -> nn.Module:
    """Images [N, 1, SIDE, SIDE] in 0..1 to logits [N, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * (SIDE // 4) ** 2, 10),
    )  # fmt: skip


def local_loader(arguments: argparse.Namespace) -> DataLoader[dict[str, Any]]:
    """The images prepared here. Data hosts serve it, and a job without them trains from it."""
    dataset = AugmentedDigits(arguments.blurs)
    shares = DistributedSampler(dataset, WORLD_SIZE, RANK, seed=arguments.seed) if WORLD_SIZE > 1 else None
    return DataLoader(dataset, arguments.batch_size, shuffle=not shares, sampler=shares, num_workers=arguments.workers)


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> tuple[float, collections.Counter]:
    """One pass over this process's share: its mean loss, and how many images each host prepared."""
    model.train()
    losses, made_on = [], collections.Counter()
    for batch in loader:
        loss = functional.cross_entropy(model(batch["image"].float() / 255), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        made_on.update(batch["host"])
    return torch.stack(losses).mean().item(), made_on


@torch.no_grad()
def accuracy_of(network: nn.Module) -> float:
    """On the held-out images."""
    network.eval()
    images, labels = read_digits(held_out=True)
    return (network(images).argmax(1) == labels).float().mean().item()


def train(arguments: argparse.Namespace, loader: Any) -> None:
    """Train; rank 0 writes the model, every rank its metrics."""
    torch.manual_seed(arguments.seed)
    network = build_network()
    model = DistributedDataParallel(network) if WORLD_SIZE > 1 else network
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.learning_rate)
    made_on: collections.Counter = collections.Counter()
    losses = []
    for epoch in range(arguments.epochs):
        begin = time.monotonic()
        sampler = loader if isinstance(loader, RemoteLoader) else loader.sampler
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        loss, hosts = train_epoch(model, optimizer, loader)
        made_on += hosts
        losses.append(loss)
        step = (time.monotonic() - begin) / len(loader)
        print(f"epoch={epoch} loss={loss:.4f} seconds_per_step={step:.4f} prepared_on={dict(hosts)}")
    metrics = {"rank": RANK, "losses": losses, "accuracy": accuracy_of(network), "prepared_on": made_on}
    arguments.output_data_dir.mkdir(parents=True, exist_ok=True)
    (arguments.output_data_dir / f"metrics-rank{RANK}.json").write_text(json.dumps(metrics))
    if RANK == 0:
        arguments.model_dir.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), arguments.model_dir / "model.pt")
    print(f"done: loss={losses[-1]:.4f} accuracy={metrics['accuracy']:.4f}")


def main() -> None:
    arguments, job = parse_arguments(), dlc_runtime.cluster()
    if not job.is_training:
        serve(local_loader(arguments), seed=arguments.seed)  # until the job ends
        return
    if WORLD_SIZE > 1:
        dist.init_process_group("gloo")
    if len(job.groups) > 1:
        with RemoteLoader(tail="drop") as loader:
            train(arguments, loader)
    else:
        train(arguments, local_loader(arguments))
    if WORLD_SIZE > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
