"""An ordinary training script: each sample costs a known amount of CPU time, each step a known amount more."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Indexed(Dataset):
    def __init__(self, cost):
        self.cost = cost

    def __len__(self):
        return 160

    def __getitem__(self, index):
        spin(self.cost)
        return torch.randn(32), index % 3


class Endless(IterableDataset):
    def __init__(self, cost):
        self.cost = cost

    def __iter__(self):
        for index in range(160):
            spin(self.cost)
            yield torch.randn(32), index % 3


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 3)

    def forward(self, x):
        return self.layer(x)


def evaluate(model, loader):
    with torch.no_grad():
        return sum(float(model(x).sum()) for x, _ in loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--context")
    parser.add_argument("--sample", type=float, default=0.005)
    parser.add_argument("--step", type=float, default=0.0)
    parser.add_argument("--iterable", action="store_true")
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--compile-at", type=int, default=-1, help="step of the first epoch")
    arguments = parser.parse_args()
    dataset = (Endless if arguments.iterable else Indexed)(arguments.sample)
    loader = DataLoader(dataset, batch_size=8, num_workers=arguments.workers, multiprocessing_context=arguments.context)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    epochs = 2
    for epoch in range(epochs):
        for number, (x, y) in enumerate(loader):
            if (epoch, number) == (0, arguments.compile_at):
                model.compile(backend="eager")
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            spin(arguments.step)
            if arguments.evaluate_every and number % arguments.evaluate_every == 0:
                evaluate(model, DataLoader(Indexed(0.002), batch_size=8))
    print(f"trained {epochs} epochs; worker_init_fn is {loader.worker_init_fn}")


if __name__ == "__main__":
    main()
