"""Optimizers with `fused=True`, as the Trainer's default has it: torch has no such kernel for XLA, and would raise."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torch.optim import Optimizer

NOTE = "XLA has no fused {0}: it ran as {0}(fused=False), which computes the same and which XLA fuses by itself"


def unfuse(optimizer: Optimizer) -> bool:
    """Whether something had to be changed. In each step: groups are added, and a checkpoint brings the flag back."""
    found = [group for group in optimizer.param_groups if group.get("fused")]
    for group in found:
        group["fused"] = False
    return bool(found)
