"""Loops that end after some steps: what stands behind the `break` runs in each step all the same."""

import torch_xla
from torch import nn, optim
from tqdm import tqdm
from user_data import batches

device = torch_xla.device()
model = nn.Linear(8, 1).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for step, batch in enumerate(batches):
    if step >= 500:
        break
    loss = model(batch.to(device)).mean()
    loss.backward()
    optimizer.step()
    print(loss)  # mistake: DLC115
    total += loss.item()  # mistake: DLC112
    torch_xla.sync()

bar = tqdm(batches)
for step, batch in enumerate(bar):
    if step == 500:
        break
    optimizer.zero_grad()
    loss = model(batch.to(device)).mean()
    loss.backward()
    optimizer.step()
    value = loss.item()
    bar.set_postfix(loss=value)  # mistake: DLC118
    torch_xla.sync()
