"""Scripts that keep what their models gave them, one after the other, with a way that reuses the memory of it.

With the argument "parameter-hook" it is one script, whose hook sees a gradient before anyone could copy it.
"""

import copy
import sys

import own_ways
import torch
from small_training import Net, data, finish

HOWS = sys.argv[1:] or (
    "sums", "second-forward", "accumulation", "average", "evaluation", "generate", "grads-kept", "grads-late",
    "hook", "late-hook", "backward-hook", "attribute", "attribute-list", "input-grads", "grads-in-a-list",
    "grads-by-function",
)  # fmt: skip


class KeepingNet(Net):
    """Keeps parts of each forward itself."""

    def __init__(self):
        super().__init__()
        self.sums = []

    def forward(self, x):
        self.hidden = self.body(x)
        if how == "attribute-list":
            self.sums.append(self.hidden.sum(1))
        return self.head(self.hidden)


def listen(how, model, index, parts):
    if (how, index) in (("hook", 0), ("late-hook", 8)):
        model.body[1].register_forward_hook(lambda module, inputs, output: parts.extend((inputs[0].detach(), output)))
    if how == "backward-hook" and index == 0:
        model.body[1].register_full_backward_hook(lambda module, inputs, outputs: parts.extend((inputs[0], outputs[0])))
    if how == "parameter-hook" and index == 0:
        model.head.weight.register_hook(parts.append)


def keep_parts(how, model, x, loss, parts):
    """Run the backward, and keep what the script has of it."""
    if how == "grads-by-function":
        parts.extend(torch.autograd.grad(loss, list(model.parameters()), retain_graph=True))
    loss.backward()
    if how == "attribute":
        parts.append(model.hidden)
    if how == "input-grads":
        parts.append(x.grad)
    if how == "grads-in-a-list":
        parts.extend(value.grad.view(-1) for value in model.parameters())


def train(how, model, average):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    total, kept, found, parts = torch.zeros(()), [], [], []
    for index, (x, y) in enumerate(data(12)):
        listen(how, model, index, parts)
        optimizer.zero_grad(set_to_none=how != "grads-kept")
        output = model(x.requires_grad_(how == "input-grads"))
        loss = torch.nn.functional.mse_loss(output, y)
        if how == "second-forward":
            loss = loss + torch.nn.functional.mse_loss(model(x * 0.5), output.detach())
        keep_parts(how, model, x, loss, parts)
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
    parts += getattr(model, "sums", [])
    return [total.item()] + [value.sum().item() for value in kept + parts] + found


own_ways.use("reusing", at_once=True)
losses, models = [], []
for how in HOWS:
    torch.manual_seed(7)
    kind = KeepingNet if how.startswith("attribute") else Net
    models += [kind(), kind()]
    models[-1].load_state_dict(copy.deepcopy(models[-2].state_dict()))
    losses += train(how, *models[-2:])
finish(losses, *models)
