"""Compiles TensorFlow's training steps by XLA; may import tensorflow, `base`, `cache` and `report`."""
