"""Compiles PyTorch models in place, by TorchInductor; may import torch, settings, hooks, source_locations, cache, report."""
