"""Compiles TensorFlow's training steps by XLA; may import tensorflow and what `pytorch` imports of ours."""
