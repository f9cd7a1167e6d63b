"""What of a way was compared with eager, by the shapes of calls."""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Shapes of one module that are each compared; those that come later are by samples.
MOST_SHAPES = 64


def signature_of(value: Any) -> Any:
    """Return shapes and formats of a call's tensors; what Dynamo makes a new graph for besides, it tells itself."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.requires_grad
    if isinstance(value, (list, tuple)):
        return tuple(map(signature_of, value))
    if isinstance(value, dict):
        return tuple((key, signature_of(each)) for key, each in value.items())
    return None


class Checked:
    """What of one way of one module was compared with eager."""

    def __init__(self) -> None:
        self.shapes: set[Any] = set()
        self.samples = 0
        self.text = ""
        # The step in which it was last compared, by number; 0 before.
        self.last = 0

    def note(self, signature: Any, text: str, step: int) -> None:
        self.samples += signature in self.shapes
        self.shapes.add(signature)
        self.text, self.last = self.text or text, step

    def is_open(self, signature: Any) -> bool:
        """Tell whether a call is to be compared before it counts."""
        return signature not in self.shapes and len(self.shapes) < MOST_SHAPES

    def words(self) -> str:
        more = [f"{len(self.shapes)} shapes"] if len(self.shapes) > 1 else []
        more += [f"{self.samples} samples later"] if self.samples else []
        return f"{self.text}; {', '.join(more)}" if more else self.text
