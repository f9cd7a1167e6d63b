"""A loop with Accelerate over a RemoteLoader that was given to `prepare`."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from recorded import TOLD, Recorded, loader

from dlc_runtime.dataservice import RemoteLoader

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=TOLD.get("accumulate", 1))
model = Recorded()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
wrapped, optimizer, batches = accelerator.prepare(model, optimizer, loader(tail="drop", device=accelerator.device))
steps = []
for epoch in range(TOLD.get("epochs", 1)):
    batches.set_epoch(epoch)
    for number, batch in enumerate(batches):
        with accelerator.accumulate(wrapped):
            accelerator.backward(wrapped(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            steps.append([epoch, number])
rows = accelerator.gather_for_metrics(torch.tensor([len(steps)]))
model.write(
    {"steps": steps, "length": len(batches), "ours": isinstance(batches, RemoteLoader), "gathered": rows.tolist()}
)
batches.close()
accelerator.end_training()
