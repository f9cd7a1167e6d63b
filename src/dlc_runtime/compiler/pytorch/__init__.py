"""Compiles PyTorch models in place, by TorchInductor; may import torch, cache, report and what these import."""
