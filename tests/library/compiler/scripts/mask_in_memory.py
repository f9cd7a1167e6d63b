"""Attention whose mask the script changes by NumPy, between steps and between the forwards of one step."""

import torch
from small_training import finish
from torch import nn

ROWS, WORDS, WIDTH = 2, 6, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, words, mask):
        parts = self.project(words)
        return nn.functional.scaled_dot_product_attention(parts, parts, parts, attn_mask=mask)


torch.manual_seed(0)
model = Attention()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mask = torch.ones(ROWS, WORDS, WORDS, dtype=torch.bool)
memory = mask.numpy()
losses = []
for step in range(12):
    for padded in (0, step % 2 * 3):
        memory[:] = True
        memory[0, :, WORDS - padded :] = False
        loss = model(torch.randn(ROWS, WORDS, WIDTH), mask).square().mean()
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
finish(losses, model)
