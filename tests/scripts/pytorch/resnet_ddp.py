"""Trains torchvision's ResNet-18 with DistributedDataParallel: sampler, nccl or gloo, rank 0 saves."""

import argparse
import json
import os

import report
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms


def get_dataset(size, train=True):
    steps = [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()] if train else []
    steps += [transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]
    return torchvision.datasets.FakeData(
        size=size, image_size=(3, 32, 32), num_classes=10, transform=transforms.Compose(steps), random_offset=7
    )


def main(args):
    is_distributed = len(args.hosts) > 1 or "RANK" in os.environ
    use_cuda = args.num_gpus > 0
    if is_distributed:
        dist.init_process_group(backend=args.backend or ("nccl" if use_cuda else "gloo"))
    rank = dist.get_rank() if is_distributed else 0
    world_size = dist.get_world_size() if is_distributed else 1
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if use_cuda else torch.device("cpu")
    torch.manual_seed(args.seed + rank)

    train_set = get_dataset(args.images)
    sampler = DistributedSampler(train_set, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler, num_workers=args.workers)
    model = torchvision.models.resnet18(weights=None, num_classes=10).to(device)
    if is_distributed:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model) if use_cuda else model
        model = DDP(model, device_ids=[device.index] if use_cuda else None)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)

    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        model.train()
        for batch_idx, (data, target) in enumerate(loader, 1):
            data, target = data.to(device, non_blocking=True), target.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(data), target)
            loss.backward()
            optimizer.step()
            if batch_idx % 2 == 0:
                print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(sampler)}] Loss: {loss.item():.6f}")
        scheduler.step()

    network = model.module if is_distributed else model
    if rank == 0:
        torch.save(network.cpu().state_dict(), os.path.join(args.model_dir, "model.pth"))
        network.to(device)
    # Batch statistics are each rank's own where they are not synchronized; the weights are not.
    network.train()
    images, labels = next(iter(DataLoader(get_dataset(16, train=False), batch_size=16)))
    with torch.no_grad():
        loss = criterion(network(images.to(device)), labels.to(device))
    report.write(rank, world_size, loss, images=len(sampler), device=str(device))
    if is_distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01, metavar="LR")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", type=str, default=None)
    # the container's environment
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ["SM_HOSTS"]))
    parser.add_argument("--current-host", type=str, default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--num-gpus", type=int, default=os.environ["SM_NUM_GPUS"])
    main(parser.parse_args())
