"""Compiles PyTorch models in place, by TorchInductor; may import torch, `base`, `cache` and `report`."""
