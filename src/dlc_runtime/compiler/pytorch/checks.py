"""What of a way was compared with eager, by the shapes of calls."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Shapes of one module that are each compared; those that come later are by samples.
MOST_SHAPES = 64


def signature_of(value: Any) -> Any:
    """Return what tells one call's tensors from another's: shapes, formats, and which of them overlap in memory.

    What Dynamo makes a new graph for besides, it tells itself. It does not look whether arguments that are written
    overlap others: a graph of calls in which none do is used for those in which some do, and computes another thing.
    """
    return form_of(value), overlaps_in([each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor)])


def form_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.requires_grad
    if isinstance(value, (list, tuple)):
        return tuple(map(form_of, value))
    if isinstance(value, dict):
        return tuple((key, form_of(each)) for key, each in value.items())
    return None


def overlaps_in(tensors: list[torch.Tensor]) -> tuple[int, ...]:
    """Return the places of tensors that overlap in memory with one that begins before them."""
    plain = sorted(
        (*memory_of(each), number)
        for number, each in enumerate(tensors)
        if type(each) in (torch.Tensor, torch.nn.Parameter) and each.layout is torch.strided and each.numel()
    )
    found, reached = [], 0
    for begin, end, number in plain:
        if begin < reached:
            found.append(number)
        reached = max(reached, end)
    return tuple(found)


def memory_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return where a tensor's elements begin and end; elements of others can lie between."""
    begin = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * tensor.element_size()


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
