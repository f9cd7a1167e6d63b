"""A new model and optimizer for each fold; the first model is used while the second is trained."""

import torch
from small_training import Net, data, finish, train

first, second = Net(), Net(width=24)
losses = train(first, data(9))
optimizer = torch.optim.AdamW(second.parameters(), lr=1e-2)
for x, y in data(9, seed=11):
    optimizer.zero_grad()
    with torch.no_grad():
        target = first(x)
    loss = torch.nn.functional.mse_loss(second(x), y + 0.1 * target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
losses += train(first, data(3, seed=12))
finish(losses, first, second)
