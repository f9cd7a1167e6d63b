"""What a reproducer is: a small training in which a public issue of PyTorch about silently wrong results matters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import nn


def change_nothing(_module: nn.Module, _step: int) -> None:
    """Stand for a script that changes nothing between steps."""


class Case(NamedTuple):
    """A module and the arguments of its call in each step."""

    module: nn.Module
    steps: list[tuple[Any, ...]]
    # What the script does before a step.
    before: Callable[[nn.Module, int], None] = change_nothing
    # In which all runs.
    within: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext


class Reproducer(NamedTuple):
    """`make` returns the same case each time.

    `unnoticed`: the script changes something from step to step and Dynamo does not look at it, so that neither a new
    graph nor a new shape says when to compare.
    """

    issue: int
    wrong: str
    make: Callable[[], Case]
    unnoticed: bool

    @property
    def name(self) -> str:
        return f"{self.issue} {self.make.__name__}"


REPRODUCERS: list[Reproducer] = []


def reproduces(issue: int, wrong: str, unnoticed: bool = False) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add a function to the table that returns a case, or a module and its arguments for one step."""

    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        def make() -> Case:
            torch.manual_seed(7)
            made = function()
            return made if isinstance(made, Case) else Case(made[0], [made[1:]])

        make.__name__ = function.__name__
        REPRODUCERS.append(Reproducer(issue, wrong, make, unnoticed))
        return function

    return add


class Layered(nn.Module):
    """A layer before `body`, a function of the module and of what the layer returns; so there is something to train."""

    def __init__(self, body: Callable[..., Any], layer: nn.Module | None = None, **buffers: torch.Tensor) -> None:
        super().__init__()
        self.layer, self.body = layer or nn.Linear(8, 8), body
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: torch.Tensor, *others: Any) -> Any:
        return self.body(self, self.layer(x), *others)


class Weighted(nn.Module):
    """`body`, a function of parameters by name and of the arguments."""

    def __init__(self, body: Callable[..., Any], **parameters: torch.Tensor) -> None:
        super().__init__()
        self.body = body
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, *arguments: Any) -> Any:
        return self.body(self, *arguments)
