"""Trains torchvision's ResNet-18 with Horovod: one process per GPU, gradients averaged, rank 0 saves."""

import argparse
import os

import horovod.torch as hvd
import report
import torch
import torch.nn.functional as F  # its name everywhere
import torchvision
from torchvision import transforms

parser = argparse.ArgumentParser(
    description="ResNet with Horovod", formatter_class=argparse.ArgumentDefaultsHelpFormatter
)
parser.add_argument("--images", type=int, default=64)
parser.add_argument("--batch-size", type=int, default=16, help="input batch size for training")
parser.add_argument("--epochs", type=int, default=1, help="number of epochs to train")
parser.add_argument("--base-lr", type=float, default=0.0125, help="learning rate for a single GPU")
parser.add_argument("--fp16-allreduce", type=lambda word: word == "True", default=False)
parser.add_argument("--checkpoint-format", default=os.environ["SM_MODEL_DIR"] + "/checkpoint-{epoch}.pth.tar")
parser.add_argument("--seed", type=int, default=42)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


if __name__ == "__main__":
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(args.seed + hvd.rank())
    use_cuda = torch.cuda.is_available()
    if use_cuda:
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda", hvd.local_rank()) if use_cuda else torch.device("cpu")
    verbose = 1 if hvd.rank() == 0 else 0

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)])
    dataset = torchvision.datasets.FakeData(args.images, (3, 32, 32), num_classes=10, transform=transform)
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
    # forked workers hang below some fabrics, so they come from a server process
    kwargs = {"num_workers": 1, "multiprocessing_context": "forkserver"}
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, **kwargs)

    model = torchvision.models.resnet18(num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * hvd.size(), momentum=0.9)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression, op=hvd.Average
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        total = 0.0
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data.to(device)), target.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        mean = metric_average(total / len(loader), "avg_loss")
        if verbose:
            print(f"epoch {epoch}: loss {mean:.4f}")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, args.checkpoint_format.format(epoch=epoch + 1))

    images = torch.stack([dataset[index][0] for index in range(16)]).to(device)
    labels = torch.tensor([int(dataset[index][1]) for index in range(16)]).to(device)
    with torch.no_grad():
        loss = F.cross_entropy(model(images), labels)
    report.write(hvd.rank(), hvd.size(), loss, images=len(sampler), mean=mean, device=str(device))
