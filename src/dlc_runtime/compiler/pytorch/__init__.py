"""Compiles PyTorch models in place, by TorchInductor; may import torch, and what of `compiler` imports no framework."""
