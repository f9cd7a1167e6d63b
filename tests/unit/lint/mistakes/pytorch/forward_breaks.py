"""A classifier whose forward reads values, prints and branches."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Gate(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.calls = 0
        self.temperature = 1.0

    def forward(self, x):
        self.calls += 1  # mistake: DLC131
        self.temperature = self.temperature * 0.999  # mistake: DLC131
        gate = torch.sigmoid(self.score(x))
        print("gate", gate.shape)  # mistake: DLC113
        if (gate > 0.5).all():  # mistake: DLC114
            return x
        return x * gate


class Classifier(nn.Module):
    def __init__(self, width: int, classes: int):
        super().__init__()
        self.gate = Gate(width)
        self.body = nn.Sequential(nn.Linear(width, 128), nn.ReLU())
        self.head = nn.Linear(128, classes)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, labels=None):
        norm = x.norm().item()  # mistake: DLC111
        x = x / (norm + 1e-6)
        assert not torch.isnan(x).any()  # mistake: DLC114
        hidden = self._embed(x)
        logits = self.head(hidden) * float(torch.exp(self.scale))  # mistake: DLC111
        if labels is not None:
            seen = labels[labels >= 0]
            return F.cross_entropy(logits, labels), seen
        return logits

    def _embed(self, x):
        x = self.body(self.gate(x))
        busy = x[x > 0]  # mistake: DLC103
        rows = torch.nonzero(x)  # mistake: DLC103
        return x + busy.mean() + rows.shape[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    data = TensorDataset(torch.randn(512, 32), torch.randint(0, 4, (512,)))
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=0)  # mistake: DLC141
    model = Classifier(32, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss, _ = model(inputs, labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
