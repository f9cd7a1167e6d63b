"""Steps that keep their graphs, show a value each time, and copy from memory that is not pinned."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

data = TensorDataset(torch.randn(512, 32), torch.randint(0, 4, (512,)))
train_loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2)  # mistake: DLC142
dicts = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, pin_memory=False)  # mistake: DLC142
on_the_gpu = DataLoader(TensorDataset(torch.randn(8, 2, device="cuda")), batch_size=2, shuffle=True)
pinned = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, pin_memory=True)
model = nn.Linear(32, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(loader, history):
    total, count = 0.0, 0
    bar = tqdm(loader)
    for inputs, labels in bar:
        inputs, labels = inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss  # mistake: DLC117
        count += 1
        history.append(loss.item())
        bar.set_postfix(loss=loss.item())  # mistake: DLC118
    return total / count


losses, numbers, history = [], [], []
for epoch in range(3):
    train(train_loader, history)
    train(pinned, history)
for batch in dicts:
    batch = [part.cuda() for part in batch]
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward(retain_graph=True)
    losses.append(loss)  # mistake: DLC117
    loss = loss.detach()
    numbers.append(loss)
for (x,) in on_the_gpu:
    loss = model(x.to("cuda")).sum()
    loss.backward()
    parts = []
    for part in range(2):
        parts.append(loss)
mean, shown, weighted, joined = 0.0, 0.0, 0, 0
for (x,) in on_the_gpu:
    loss = model(x).sum()
    loss.backward()
    mean = mean + loss  # mistake: DLC117
    weighted = loss + weighted  # mistake: DLC117
    shown = shown + loss.item()
    joined = 0
    joined = joined + loss
bar = tqdm(pinned)
for inputs, labels in bar:
    loss = model(inputs.cuda(non_blocking=True)).sum()
    loss.backward()
    shown = loss.item()
    logs = {"loss": loss.detach().item()}
    bar.set_description(f"loss {shown:.3f}")  # mistake: DLC118
    bar.set_postfix(**logs)  # mistake: DLC118
