"""Computes with torch_xla on the CPU and prints the largest difference to plain PyTorch."""

import torch
import torch_xla

device = torch_xla.device()
left, right = torch.randn(2, 64, 64)
print(float((torch.tanh(left.to(device) @ right.to(device)).cpu() - torch.tanh(left @ right)).abs().max()))
