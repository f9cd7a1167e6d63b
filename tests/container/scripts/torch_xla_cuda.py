"""Asks torch_xla, as the image has it, for a GPU; prints what XLA answers, a device or an error."""

import torch_xla

try:
    print(torch_xla.device())
except RuntimeError as error:
    print(error)
