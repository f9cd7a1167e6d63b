"""Compiles TensorFlow's training steps by XLA; may import tensorflow, and what of `compiler` imports no framework."""
