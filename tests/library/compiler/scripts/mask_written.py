"""Attention whose mask an operation of the script's own writes into."""

import torch
from small_training import finish
from torch import nn

ROWS, WORDS, WIDTH = 2, 6, 8


def hide(mask):
    mask[..., 3:] = False


library = torch.library.Library("script", "DEF")
library.define("hide(Tensor(a!) mask) -> ()")
library.impl("hide", hide, "CompositeExplicitAutograd")
library.impl("hide", lambda mask: None, "Meta")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, words):
        parts = self.project(words)
        mask = torch.ones(WORDS, WORDS, dtype=torch.bool)
        torch.ops.script.hide(mask)
        return nn.functional.scaled_dot_product_attention(parts, parts, parts, attn_mask=mask)


model = Attention()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(10):
    loss = model(torch.randn(ROWS, WORDS, WIDTH)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
finish(losses, model)
