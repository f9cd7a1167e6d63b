"""Reports what PyTorch/XLA compiles for a script that runs on XLA devices; may import torch, `base`, `report`."""
