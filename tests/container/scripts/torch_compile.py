"""Compiles a function with torch.compile (inductor) and prints its largest difference to the plain one."""

import torch


def smooth(x: torch.Tensor) -> torch.Tensor:
    """Element-wise work that inductor fuses into one C++ loop."""
    return torch.tanh(x) * torch.exp(-x * x) + x.sin()


values = torch.linspace(-3, 3, 10_000)
print(float((torch.compile(smooth, fullgraph=True)(values) - smooth(values)).abs().max()))
