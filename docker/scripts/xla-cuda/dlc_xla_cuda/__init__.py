"""PyTorch/XLA's client for NVIDIA GPUs: the PJRT plug-in of `jax-cuda12-pjrt`, found by its path, without JAX."""
