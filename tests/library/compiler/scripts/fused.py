"""Optimizers whose steps the runtime may fuse: each trains twice, the second time with what `fuse_steps` makes of it.

By a clock that says a fused step is twice as fast, or, with `slow` in argv, half as fast. Says of each case what the
report says, how many of its steps were fused, and how weights and losses differ; and the same of a training that goes
on in an optimizer of the script's own from what was saved.
"""

import copy
import json
import os
import sys
from pathlib import Path

import own_ways
import torch
from small_training import Net, data
from torch.optim import SGD, Adam, AdamW

from dlc_runtime.compiler.pytorch import in_place

STEPS, BEFORE = 12, 3
CASES = {
    "AdamW": lambda groups: AdamW(groups, lr=1e-2),
    "Adam": lambda groups: Adam(groups, lr=1e-2, amsgrad=True, weight_decay=0.1),
    "SGD": lambda groups: SGD(groups, lr=1e-2, momentum=0.9, nesterov=True),
    "foreach": lambda groups: AdamW(groups, foreach=False),
    "fused": lambda groups: AdamW(groups, fused=True),
    "tensor": lambda groups: AdamW(groups, lr=torch.tensor(1e-2)),
    "other": lambda groups: torch.optim.RMSprop(groups),
    "transposed": lambda groups: AdamW(groups, lr=1e-2),
}
clock, fused_steps = own_ways.Clock(), []


def counted(module, name, seconds):
    original = getattr(module, name, None)

    def run(*arguments, **named):
        clock.now += seconds
        if "fused" in name:
            fused_steps.append(name)
        return original(*arguments, **named)

    if original is not None:
        setattr(module, name, run)


for kind in ("adam", "adamw", "sgd"):
    module = sys.modules[f"torch.optim.{kind}"]
    counted(module, f"_single_tensor_{kind}", 1.0)
    counted(module, f"_fused_{kind}", 2.0 if "slow" in sys.argv else 0.5)
in_place.time = clock


def optimizer_of(name, model):
    decays = [p for p in model.parameters() if p.dim() > 1]
    return CASES[name]([{"params": decays, "weight_decay": 0.01}, {"params": [*model.parameters()][1::2]}])


def train(model, optimizer, batches, name, notes=None):
    losses = []
    for index, (x, y) in enumerate(batches):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        if name == "transposed" and index > BEFORE:  # as some code outside autograd leaves it
            weight = model.head.weight
            weight.grad = weight.grad.t().contiguous().t()
        optimizer.step()
        losses.append(loss.item())
        if notes is not None and index == BEFORE - 1:
            in_place.fuse_steps([optimizer], notes)
        optimizer.zero_grad()
    return losses


def largest(mine, its):
    return max((one - other).abs().max().item() for one, other in zip(mine.parameters(), its.parameters(), strict=True))


def compare(name):
    models, notes = [], []
    for is_ours in (False, True):
        torch.manual_seed(0)
        model = Net()
        optimizer = optimizer_of(name, model)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4) if name != "tensor" else None
        fused_steps.clear()
        losses = train(model, optimizer, data(STEPS), name, notes if is_ours else None)
        if scheduler is not None:
            scheduler.step()
        saved = copy.deepcopy(optimizer.state_dict())
        models.append((model, losses, [{**group, "params": 0} for group in saved["param_groups"]]))
    steps = len(fused_steps)
    (script, losses, groups), (ours, ours_losses, ours_groups) = models
    found = {
        "notes": notes,
        "fused_steps": steps,
        "weights": largest(script, ours),
        "losses": max(abs(one - other) for one, other in zip(losses, ours_losses, strict=True)),
        "same_groups": str(groups) == str(ours_groups),
    }
    again = Net()
    again.load_state_dict(ours.state_dict())
    own = optimizer_of(name, again)
    own.load_state_dict(saved)
    fused_steps.clear()
    train(again, own, data(4, seed=9), name)
    found["fused_after_loading"] = len(fused_steps)
    train(ours, optimizer, data(4, seed=9), name)
    found["after_loading"] = largest(again, ours)
    return found


results = {name: compare(name) for name in CASES}
(Path(os.environ["RESULTS"]) / "0.json").write_text(json.dumps(results))
