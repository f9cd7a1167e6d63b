"""What torch knows of this process: its version, device and rank."""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def facts() -> dict[str, Any]:
    """Without `rank` where the script has not joined a group: it may give itself a rank after we started."""
    device = str(torch.cuda.get_device_name()) if torch.cuda.is_initialized() else "cpu"
    found: dict[str, Any] = {"framework": f"torch {torch.__version__}", "device": device}
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        found["rank"] = distributed.get_rank()
    return found
