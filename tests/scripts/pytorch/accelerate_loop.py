"""A training loop of one's own under Accelerate: prepare, backward, gather, and one process that saves."""

import argparse
import os

import report
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_linear_schedule_with_warmup


def get_dataloaders(accelerator, batch_size):
    with accelerator.main_process_first():
        digits = load_digits()
    images = torch.tensor(digits["data"], dtype=torch.float32) / 16
    labels = torch.tensor(digits["target"])
    train = TensorDataset(images[:1400], labels[:1400])
    held_out = TensorDataset(images[1400:], labels[1400:])
    return (
        DataLoader(train, shuffle=True, batch_size=batch_size, num_workers=2, drop_last=True),
        DataLoader(held_out, batch_size=batch_size),
        held_out,
    )


def training_function(args):
    accelerator = Accelerator(gradient_accumulation_steps=2, log_with="tensorboard", project_dir=args.output_data_dir)
    accelerator.init_trackers("digits", config={"lr": args.lr, "epochs": args.epochs})
    set_seed(args.seed)
    train_dataloader, eval_dataloader, held_out = get_dataloaders(accelerator, args.batch_size)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    steps = len(train_dataloader) * args.epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=5, num_training_steps=steps)
    model, optimizer, train_dataloader, eval_dataloader, scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, scheduler
    )

    for epoch in range(args.epochs):
        model.train()
        for images, labels in train_dataloader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        model.eval()
        right = seen = 0
        for images, labels in eval_dataloader:
            with torch.no_grad():
                predictions = model(images).argmax(dim=-1)
            predictions, references = accelerator.gather_for_metrics((predictions, labels))
            right += (predictions == references).sum().item()
            seen += len(references)
        accelerator.print(f"epoch {epoch}: accuracy {right / seen:.4f}")
        accelerator.log({"accuracy": right / seen}, step=epoch)

    accelerator.wait_for_everyone()
    accelerator.save_state(os.path.join(args.output_data_dir, "state"))
    if accelerator.is_main_process:
        unwrapped = accelerator.unwrap_model(model)
        accelerator.save(unwrapped.state_dict(), os.path.join(args.model_dir, "model.pt"))
    images, labels = (tensor.to(accelerator.device) for tensor in held_out.tensors)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(accelerator.unwrap_model(model)(images), labels)
    report.write(
        accelerator.process_index, accelerator.num_processes, loss,
        accuracy=right / seen, seen=seen, device=str(accelerator.device),
    )  # fmt: skip
    accelerator.end_training()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Accelerate on handwritten digits")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", "-b", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--model-dir", type=str, default=os.environ.get("SM_MODEL_DIR", "."))
    parser.add_argument("--output-data-dir", type=str, default=os.environ.get("SM_OUTPUT_DATA_DIR", "."))
    training_function(parser.parse_args())
