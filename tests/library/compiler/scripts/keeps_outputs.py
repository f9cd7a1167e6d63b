"""Scripts that keep what their models returned, one after the other, with a way that reuses the memory of it."""

import copy

import own_ways
import torch
from small_training import Net, data, finish

HOWS = ("sums", "second-forward", "accumulation", "average", "evaluation", "generate", "grads-kept", "grads-late")


def train(how, model, average):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    total, kept, found = torch.zeros(()), [], []
    for x, y in data(12):
        optimizer.zero_grad(set_to_none=how != "grads-kept")
        output = model(x)
        loss = torch.nn.functional.mse_loss(output, y)
        if how == "second-forward":
            loss = loss + torch.nn.functional.mse_loss(model(x * 0.5), output.detach())
        loss.backward()
        if how == "accumulation":
            torch.nn.functional.mse_loss(model(x + 1), y).backward()
        if how == "average":
            with torch.no_grad():
                for held, value in zip(average.parameters(), model.parameters(), strict=True):
                    held.mul_(0.9).add_(value, alpha=0.1)
        if how == "evaluation":
            model.eval()
            with torch.no_grad():
                found.append(model(x).sum().item())
            model.train()
        if how == "generate":
            with torch.no_grad():
                grown = x[:1]
                for _ in range(3):
                    grown = torch.cat([grown, model(grown).sum().expand(1, 8)])
                found.append(grown.sum().item())
        optimizer.step()
        if how == "grads-late":  # they are looked at after the next forward
            model(x)
            found.append(sum(value.grad.sum().item() for value in model.parameters()))
        total = total + loss
        kept.append(output)
    return [total.item()] + [value.sum().item() for value in kept] + found


own_ways.use("reusing", at_once=True)
losses, models = [], []
for how in HOWS:
    torch.manual_seed(7)
    models += [Net(), Net()]
    models[-1].load_state_dict(copy.deepcopy(models[-2].state_dict()))
    losses += train(how, *models[-2:])
finish(losses, *models)
