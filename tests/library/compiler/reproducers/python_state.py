"""Reproducers of what a script keeps in Python: what Dynamo takes for a constant, or does not write."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import torch
from torch import nn

from reproducers.case import Case, Layered, reproduces


def batches(number: int, *shape: int) -> list[tuple[Any, ...]]:
    return [(torch.randn(*shape),) for _ in range(number)]


@reproduces(169253, "what is appended to a list of the class is lost")
def list_of_the_class() -> Any:
    class Model(nn.Module):
        kept: ClassVar[list[Any]] = []

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            Model.kept.append(x.mean())
            return self.layer(x) * sum(Model.kept)

    return Case(Model(), batches(3, 4, 8))


@reproduces(197859, "a part of a module that is replaced in its dictionary is used on", unnoticed=True)
def replaced_part() -> Any:
    other = nn.Linear(8, 8)

    def before(module: Any, step: int) -> None:
        if step == 1:
            object.__setattr__(module, "layer", other)

    return Case(Layered(lambda _m, y: y.relu()), batches(2, 4, 8), before)


@reproduces(197811, "closures that hold different methods of tensors share a graph", unnoticed=True)
def methods_in_closures() -> Any:
    def make(function: Any) -> Any:
        def run(one: Any, two: Any) -> Any:
            return function(one, two)

        return run

    pair = make(torch.Tensor.__add__), make(torch.Tensor.__mul__)

    def before(module: Any, step: int) -> None:
        module.run = pair[step % 2]

    return Case(Layered(lambda m, y: m.run(y, y.detach())), batches(2, 4, 8), before)


@reproduces(197085, "random.shuffle gives the same order in each step")
def shuffled_in_python() -> Any:
    def body(_m: Any, y: Any) -> Any:
        order = list(range(8))
        random.shuffle(order)
        return y[:, order] * torch.arange(8)

    return Case(Layered(body), batches(3, 4, 8), lambda _m, step: random.seed(step))


@reproduces(145445, "a random.Random of the module goes on with the wrong number", unnoticed=True)
def own_generator() -> Any:
    model = Layered(lambda m, y: y * m.numbers.randint(1, 100))
    model.numbers = random.Random(5)
    return Case(model, batches(3, 4, 8))


@reproduces(117265, "a backward hook of a layer that comes later is not called")
def later_backward_hook() -> Any:
    def before(module: Any, step: int) -> None:
        if step == 1:
            module[1].register_full_backward_pre_hook(lambda _layer, gradients: [2 * each for each in gradients])

    return Case(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU()), batches(2, 4, 8), before)


@reproduces(196437, "with shapes that change a random number is drawn once for two steps")
def generator_and_shapes() -> Any:
    model = Layered(lambda m, y: y * m.numbers.randint(1, 100))
    model.numbers = random.Random(0)
    return Case(model, [(torch.randn(*shape, 8),) for shape in ((1,), (5,), (2,), (3,))])
