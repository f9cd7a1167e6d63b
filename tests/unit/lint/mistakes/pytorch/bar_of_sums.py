"""Progress bars that show what a line before has read."""

from torch import nn, optim
from tqdm import tqdm
from user_data import loader

model = nn.Linear(8, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)
bar, total = tqdm(loader), 0.0
for step, batch in enumerate(bar):
    optimizer.zero_grad()
    loss = model(batch)
    loss.backward()
    optimizer.step()
    total += loss.item()
    bar.set_postfix(loss=total / (step + 1))  # mistake: DLC118
    bar.set_postfix(step=step)

for step, batch in enumerate(bar):
    optimizer.zero_grad()
    loss = model(batch)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        value = loss.item()
    bar.set_postfix(loss=value)
