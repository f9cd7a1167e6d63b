"""A GAN-like pair of models that logs and saves in each step."""

import os

import torch
import wandb
from torch import nn, optim
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, transforms
from tqdm import tqdm

images = datasets.FashionMNIST("data", download=True, transform=transforms.ToTensor())
loader = DataLoader(images, batch_size=64, shuffle=True)  # mistake: DLC141
encoder, decoder = nn.Linear(784, 32), nn.Linear(32, 784)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
writer = SummaryWriter()
folder = os.environ.get("SM_MODEL_DIR", "model")


def train_step(batch, step):
    optimizer.zero_grad()
    flat = batch.flatten(1)
    loss = nn.functional.mse_loss(decoder(encoder(flat)), flat)
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss", loss, step)  # mistake: DLC115
    return loss


step = 0
for epoch in range(5):
    for batch, _ in tqdm(loader):
        loss = train_step(batch, step)
        print(f"{step}: {loss.item():.4f}")  # mistake: DLC115
        wandb.log({"loss": loss.item()})  # mistake: DLC115
        torch.save(encoder.state_dict(), os.path.join(folder, "last.pt"))  # mistake: DLC116
        if step % 100 == 0:
            print("still here", loss.item())
        step += 1
