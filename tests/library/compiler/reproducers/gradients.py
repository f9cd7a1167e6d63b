"""Reproducers in which outputs are right and gradients are not."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reproducers.case import Case, Layered, Weighted, reproduces


@reproduces(182012, "the gradient of what diagonal_scatter writes into is zero")
def diagonal_scatter() -> Any:
    return (
        Weighted(lambda m, x: torch.diagonal_scatter(m.w * x, m.d).sum(), w=torch.randn(8, 8), d=torch.randn(8)),
        torch.randn(8, 8),
    )


@reproduces(180771, "slice_scatter: elements that are not overwritten get no gradient")
def slice_scatter() -> Any:
    def body(m: Any) -> Any:
        return torch.slice_scatter(m.w, m.v, dim=0, start=0, end=2).sum()

    return (Weighted(body, w=torch.randn(12), v=torch.randn(2)),)


@reproduces(185509, "interpolate, convolution, pooling and where: all gradients are wrong")
def pooled_where() -> Any:
    def body(m: Any, x: Any, mask: Any) -> Any:
        y = functional.interpolate(x * m.scale, scale_factor=(1.5, 1.25), mode="bilinear", align_corners=False)
        y = functional.conv2d(y[:, :, 1:7, 1:8], m.weight, m.bias, padding=1)
        return torch.where(mask, y, functional.max_pool2d(y, 3, stride=1, padding=1))

    parameters = {"scale": torch.rand(3, 6, 8), "weight": torch.randn(4, 3, 3, 3), "bias": torch.randn(4)}
    return Weighted(body, **parameters), torch.randn(2, 3, 6, 8), torch.rand(2, 4, 6, 7) > 0.5


@reproduces(193061, "two modulated LayerNorms with chunks of one parameter: the second's gradients are not written")
def modulated_norms() -> Any:
    def body(m: Any, x: Any) -> Any:
        one, two, three, four = m.table.chunk(4)
        x = x + functional.layer_norm(x, (32,)) * (1 + one) + two
        return (x + functional.layer_norm(x, (32,)) * (1 + three) + four).square().mean()

    return Weighted(body, table=torch.randn(4, 32) / 6), torch.randn(8, 2048, 32)


@reproduces(198119, "avg_pool2d with ceil_mode: a window over the edge divides its gradient by too much")
def average_over_the_edge() -> Any:
    return (
        Layered(lambda _m, y: functional.avg_pool2d(y, 3, stride=2, ceil_mode=True), nn.Conv2d(2, 4, 3, padding=1)),
        torch.randn(2, 2, 8, 8),
    )


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, one: Any, two: Any) -> Any:
        context.save_for_backward(one, two)
        return one * two + one

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        one, two = context.saved_tensors
        return gradient * (two + 1), gradient * one


@reproduces(183604, "a function of autograd that gets a tensor twice returns half of its gradient")
def tensor_given_twice() -> Any:
    return Layered(lambda _m, y: Product.apply(y, y)), torch.randn(4, 8)


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Any, weight: Any) -> Any:
        context.save_for_backward(x, weight)
        found = x * weight
        found += x
        return found

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        x, weight = context.saved_tensors
        return gradient * (weight + 1), (gradient * x).sum(0)


@reproduces(180642, "a function of autograd that writes in place gets its gradient at another place")
def in_place_in_a_function() -> Any:
    model = Layered(lambda m, y: AddInPlace.apply(y, m.weight))
    model.weight = nn.Parameter(torch.randn(8))
    return model, torch.randn(4, 8)


@reproduces(197084, "the gradient of pinv of complex numbers is wrong")
def complex_inverse() -> Any:
    def body(m: Any) -> Any:
        return torch.linalg.pinv(torch.view_as_complex(m.w)).abs().square().sum()

    return (Weighted(body, w=torch.randn(4, 3, 2)),)


def with_little_memory() -> Any:
    import torch._functorch.config as config

    return config.patch(activation_memory_budget=0.1)


@reproduces(190758, "with a small activation_memory_budget dropout is drawn anew in the backward")
def dropout_drawn_again() -> Any:
    def body(m: Any, y: Any) -> Any:
        for _ in range(3):
            y = functional.dropout(functional.gelu(m.layer(y)), 0.5)
        return y

    return Case(Layered(body), [(torch.randn(16, 8),)], within=with_little_memory)


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(_context: Any, _inputs: Any, _output: Any) -> None:
        pass

    @staticmethod
    def backward(_context: Any, gradient: Any) -> Any:
        return gradient * 7


@reproduces(193279, "torch.func.grad of a function of autograd: its own backward is left out")
def own_backward_in_func() -> Any:
    def body(_m: Any, y: Any) -> Any:
        return y * torch.func.grad(lambda x: NoBackward.apply(x).sum())(y.detach())

    return Layered(body), torch.randn(4, 8)


@reproduces(172062, "the gradient of cumprod is far off")
def cumulated_product() -> Any:
    return Layered(lambda _m, y: y.mul(0.1).cumprod(1)), torch.randn(4, 8)


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.three, self.four = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.two(functional.relu(self.one(x)))), 2)
        x = functional.relu(self.three(functional.dropout(x, 0.25).flatten(1)))
        return functional.nll_loss(functional.log_softmax(self.four(functional.dropout(x, 0.5)), 1), labels)


@reproduces(185509, "convolutions, max_pool2d and dropout, as in the MNIST example: gradients of zero")
def digits() -> Any:
    return Digits(), torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
