"""Small trainings in which public issues of PyTorch about silently wrong results matter."""

import importlib

for name in ("gradients", "writes", "values", "python_state"):
    importlib.import_module(f"reproducers.{name}")
