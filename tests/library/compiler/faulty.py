"""Models whose weights pass through a fault: gradients, outputs or buffers that a compiler got wrong, on purpose."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Switch:
    """The fault that is on, by its function of a gradient; and of which weight alone, "" for all."""

    fault: Callable[[torch.Tensor], torch.Tensor] | None = None
    only = ""
    output: Callable[[torch.Tensor], torch.Tensor] | None = None
    # As compiled code rounds: products with more digits inside, and what follows a product together with it.
    exact = False


@contextlib.contextmanager
def right() -> Iterator[None]:
    """Take the faults out meanwhile."""
    held, Switch.fault, Switch.exact = (Switch.fault, Switch.exact), None, False
    try:
        yield
    finally:
        Switch.fault, Switch.exact = held


class Through(torch.autograd.Function):
    """A weight as it is; its gradient with the fault."""

    @staticmethod
    def forward(_context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return Switch.fault(gradient) if Switch.fault is not None else gradient


def through(value: torch.Tensor, name: str) -> torch.Tensor:
    wanted = Switch.fault is not None and Switch.only in ("", name)
    return Through.apply(value) if wanted else value


def product(function: Any, module: nn.Module, x: torch.Tensor, **named: Any) -> Any:
    weight, bias = through(module.weight, module.name), module.bias
    if not Switch.exact:
        return function(x, weight, bias, **named)
    computed = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else weight.dtype
    # As in eager weights are rounded first; what comes out of a product is rounded once, if it is stored then.
    wide = [value.to(computed).double() if value is not None else None for value in (x, weight, bias)]
    with torch.autocast("cpu", enabled=False):
        return function(*wide, **named).to(
            computed if module.is_stored else torch.promote_types(computed, torch.float32)
        )


class Linear(nn.Linear):
    name, is_stored = "", True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return product(nn.functional.linear, self, x)


class Conv(nn.Conv2d):
    name, is_stored = "", True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return product(nn.functional.conv2d, self, x, padding=1)


class Block(nn.Module):
    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(width), Linear(width, 2 * width), Linear(2 * width, width)
        self.drop = nn.Dropout(drop)

        self.one.is_stored = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.drop(self.two(nn.functional.gelu(self.one(self.norm(x)))))


class Model(nn.Module):
    """`how`: dropout, batchnorm, tied, checkpoint or reentrant, by words."""

    def __init__(self, *how: str) -> None:
        super().__init__()
        drop = 0.2 if "dropout" in how else 0.0
        self.how = how
        self.table = nn.Embedding(40, 32)
        self.blocks = nn.ModuleList(Block(32, drop) for _ in range(3))
        self.norm = nn.BatchNorm1d(32) if "batchnorm" in how else nn.LayerNorm(32)
        self.head = Linear(32, 40, bias=False)
        if "tied" in how:
            self.head.weight = self.table.weight
        self.head.name, self.blocks[1].one.name = "head", "middle"

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.table(words)
        for block in self.blocks:
            if "checkpoint" in self.how or "reentrant" in self.how:
                x = checkpoint(block, x, use_reentrant="reentrant" in self.how)
            else:
                x = block(x)
        return self.head(self.norm(x.flatten(0, 1)))


class Pictures(nn.Module):
    """Convolutions with dropout and batch norm, as in many examples."""

    def __init__(self, *how: str) -> None:
        super().__init__()
        self.body = nn.Sequential(
            Conv(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), Conv(8, 16, 3), nn.ReLU(), nn.Flatten()
        )
        self.drop = nn.Dropout(0.5 if "dropout" in how else 0.0)
        self.head = Linear(16 * 49, 10)
        self.head.name, self.body[4].name = "head", "middle"
        self.body[4].is_stored = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.log_softmax(self.head(self.drop(self.body(x))), 1)


def permuted(value: torch.Tensor) -> torch.Tensor:
    return value.flatten()[torch.randperm(value.numel(), generator=torch.Generator().manual_seed(5))].view_as(value)


def same_norm(value: torch.Tensor) -> torch.Tensor:
    other = torch.randn(value.shape, generator=torch.Generator().manual_seed(6)).to(value.dtype)
    return other * (value.norm() / other.norm())


def one_in_a_thousand(value: torch.Tensor) -> torch.Tensor:
    """Leave out each thousandth of the elements that count."""
    found = value.clone().flatten()
    large = found.abs().argsort(descending=True)[: max(1, found.numel() // 2)]
    found[large[:: min(1000, large.numel())]] = 0
    return found.view_as(value)


GRADIENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zero": torch.zeros_like,
    "half": lambda value: value * 0.5,
    "double": lambda value: value * 2,
    "flipped": lambda value: -value,
    "permuted": permuted,
    "same norm": same_norm,
    "one in a thousand": one_in_a_thousand,
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: Model(),
    "dropout": lambda: Model("dropout"),
    "batchnorm": lambda: Model("batchnorm"),
    "tied": lambda: Model("tied", "dropout"),
    "checkpoint": lambda: Model("checkpoint", "dropout"),
    "reentrant": lambda: Model("reentrant", "dropout"),
    "pictures": lambda: Pictures(),
    "pictures with dropout": lambda: Pictures("dropout"),
}
FORMATS = ("float32", "autocast", "bfloat16")


def batch_for(model: nn.Module, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    if isinstance(model, Pictures):
        return torch.randn(size, 1, 14, 14, generator=generator)
    return torch.randint(0, 40, (size, 8), generator=generator)


class Way:
    """Eager, and a way that is as right but rounds in another order, on one batch."""

    def __init__(self, model: str, form: str, size: int = 16) -> None:
        torch.manual_seed(7)
        self.module = MODELS[model]()
        self.batch = batch_for(self.module, size)
        self.form = form
        if form == "bfloat16":
            self.module.bfloat16()
            self.batch = self.batch.bfloat16() if self.batch.is_floating_point() else self.batch

    def eager(self) -> torch.Tensor:
        return self.module(self.batch)

    def other(self) -> torch.Tensor:
        found = self.module(self.batch)
        return found if Switch.output is None else Switch.output(found)

    def compare(self) -> str:
        from dlc_runtime.compiler.pytorch.comparison import compare_with_eager

        autocast = torch.autocast("cpu", torch.bfloat16, enabled=self.form == "autocast")
        with autocast:
            return compare_with_eager(self.module, self.eager, self.other, (self.batch,), right)

    def kept(self) -> dict[str, torch.Tensor]:
        return copy.deepcopy(self.module.state_dict())
