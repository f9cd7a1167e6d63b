"""Trains a small BERT or GPT in a plain PyTorch loop. The job says whether it is compiled: nothing here does."""

from __future__ import annotations

import pytorch_models
import reference_text
import settings
import torch
from torch.utils.data import DataLoader


def main() -> None:
    arguments = settings.parse_arguments(__doc__)
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer, blocks, held_out = reference_text.read_blocks(arguments.length, arguments.blocks)
    model = pytorch_models.build(arguments.model, len(tokenizer), arguments.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    # drop_last: a last batch of another size would be compiled on its own
    training = pytorch_models.Examples(arguments.model, blocks, tokenizer.mask_token_id)
    loader = DataLoader(training, arguments.batch_size, shuffle=True, drop_last=True)
    losses = []
    for epoch in range(arguments.epochs):
        for batch in loader:
            loss = model(**{name: tensor.to(device) for name, tensor in batch.items()}).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())  # read at the end of the epoch: reading waits for the device
        print(f"epoch={epoch} loss={losses[-1].item():.3f}")

    model.eval()
    tests = pytorch_models.Examples(arguments.model, held_out, tokenizer.mask_token_id)
    with torch.no_grad():
        test_loss = model(**{name: column.to(device) for name, column in tests.columns.items()}).loss.item()
    model.save_pretrained(arguments.model_dir)
    tokenizer.save_pretrained(arguments.model_dir)
    settings.write_metrics(arguments, 0, torch.stack(losses).tolist(), test_loss)


if __name__ == "__main__":
    main()
