"""Uses torch.compile itself, in all the wrong ways."""

import torch
import torch.distributed as dist
from data import ReviewDataset
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorForSeq2Seq

tokenizer = AutoTokenizer.from_pretrained("t5-small")


def collate(rows):
    return tokenizer([row["text"] for row in rows], padding="longest", return_tensors="pt")  # mistake: DLC101


def main():
    dist.init_process_group("nccl")
    first = nn.Sequential(nn.Linear(64, 64), nn.GELU())
    second = nn.Linear(64, 64)
    torch.compile(second)  # mistake: DLC135
    fast = torch.compile(DDP(second), dynamic=False)
    optimizer = torch.optim.AdamW(second.parameters(), lr=1e-4)
    train_loader = DataLoader(ReviewDataset(), batch_size=16, collate_fn=collate, num_workers=4)  # mistake: DLC102
    pairs = DataCollatorForSeq2Seq(tokenizer)  # mistake: DLC101
    for batch in train_loader:
        value = fast(first(batch["x"])).sum()
        (gradient,) = torch.autograd.grad(value, batch["x"], create_graph=True)  # mistake: DLC133
        loss = value + gradient.square().mean()
        loss.backward(create_graph=True)  # mistake: DLC133
        optimizer.step()
        optimizer.zero_grad()
    return pairs


if __name__ == "__main__":
    main()
