"""Compiles TensorFlow's training steps by XLA; may import tensorflow, cache, report and what these import."""
