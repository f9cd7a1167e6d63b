"""A loop with Accelerate: accumulation, clipping, a scheduler."""

import torch
from accelerate import Accelerator
from small_training import Net, data, finish

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
rows = [(x[0], y[0]) for x, y in data(80, size=1)]
loader = torch.utils.data.DataLoader(rows, batch_size=4)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
losses = []
for x, y in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    losses.append(loss.item())
finish(losses, accelerator.unwrap_model(model))
