"""One XLA device, a loop of one's own; nothing ends its steps."""

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from data import train_images
from torch.utils.data import DataLoader
from torchvision.models import resnet18


def main():
    device = xm.xla_device()
    model = resnet18(num_classes=10).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)  # mistake: DLC127
    weights = torch.ones(10).cuda()  # mistake: DLC121
    train_loader = DataLoader(train_images(), 64, shuffle=True, num_workers=4)  # mistake: DLC102
    running = 0.0
    for epoch in range(3):
        for data, target in train_loader:
            data = data.to(device)
            target = target.to("cuda:0")  # mistake: DLC121
            kept = torch.nonzero(target)  # mistake: DLC103
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target, weights)
            loss.backward()
            optimizer.step()  # mistake: DLC122
            running += loss.item() + len(kept)  # mistake: DLC112
        print(f"epoch {epoch}: {running:.3f}")
    torch.save(model.state_dict(), "model.pt")  # mistake: DLC125


if __name__ == "__main__":
    main()
