"""Logistic regression over a CSV and a parquet channel, read with `datasets`; curves go to TensorBoard."""

import argparse
import glob
import json
import os

import report
import torch
from datasets import load_dataset
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--features", type=str, default="age,income,visits,distance")
parser.add_argument("--target", type=str, default="bought")
parser.add_argument("--title", type=str, default="")
parser.add_argument("--train", type=str, default=os.environ.get("SM_CHANNEL_TRAIN"))
parser.add_argument("--validation", type=str, default=os.environ.get("SM_CHANNEL_VALIDATION"))
parser.add_argument("--tensorboard", type=str, default="/opt/ml/output/tensorboard")
args = parser.parse_args()

train = load_dataset("csv", data_files=sorted(glob.glob(f"{args.train}/*.csv")), split="train")
validation = load_dataset("parquet", data_files={"validation": f"{args.validation}/*.parquet"}, split="validation")
features = args.features.split(",")
train = train.filter(lambda row: row["city"] != "nowhere", num_proc=2).shuffle(seed=3)


def tensors(dataset):
    table = dataset.select_columns([*features, args.target]).with_format("torch")[:]
    return torch.stack([table[name].float() for name in features], dim=1), table[args.target].float()


model = torch.nn.Linear(len(features), 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
writer = SummaryWriter(log_dir=args.tensorboard)
inputs, wanted = tensors(train)
for epoch in range(args.epochs):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(inputs).squeeze(1), wanted)
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss/train", loss.item(), epoch)
    writer.add_histogram("weights", model.weight, epoch)
writer.close()

inputs, wanted = tensors(validation)
with torch.no_grad():
    logits = model(inputs).squeeze(1)
loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)
accuracy = ((logits > 0) == wanted.bool()).float().mean().item()
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
with open(os.path.join(os.environ["SM_MODEL_DIR"], "features.json"), "w") as file:
    json.dump(features, file)
report.write(
    0,
    1,
    loss,
    accuracy=accuracy,
    rows=[len(train), len(validation)],
    cities=sorted(set(train["city"])),
    title=args.title,
)
