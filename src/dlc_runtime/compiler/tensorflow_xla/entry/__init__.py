"""How a process comes to be armed: TensorFlow's import, XLA's flags; may import what its parent may."""
