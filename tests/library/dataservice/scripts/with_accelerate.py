"""A loop with Accelerate over a RemoteLoader that was given to `prepare`."""

from __future__ import annotations

import torch
from accelerate import Accelerator, skip_first_batches
from recorded import TOLD, Recorded, loader

from dlc_runtime.dataservice import RemoteLoader

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=TOLD.get("accumulate", 1))
model = Recorded()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
wrapped, optimizer, batches = accelerator.prepare(model, optimizer, loader(tail="drop", device=accelerator.device))
accelerator.register_for_checkpointing(batches)
if "resume" in TOLD:
    accelerator.load_state(TOLD["resume"])
steps = []
for epoch in range(TOLD.get("epochs", 1)):
    batches.set_epoch(epoch)
    left = skip_first_batches(batches, TOLD["skip"]) if "skip" in TOLD else batches
    for number, batch in enumerate(left):
        with accelerator.accumulate(wrapped):
            accelerator.backward(wrapped(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            steps.append([epoch, number])
        if number + 1 == TOLD.get("stop_at"):
            accelerator.save_state(TOLD["save"])
            break
rows = accelerator.gather_for_metrics(torch.tensor([len(steps)]))
model.write(
    {"steps": steps, "length": len(batches), "ours": isinstance(batches, RemoteLoader), "gathered": rows.tolist()}
)
batches.close()
accelerator.end_training()
