"""Reproducers in which outputs are wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reproducers.case import Layered, reproduces


@reproduces(185702, "a column of a larger tensor between gammaln, erf and xlogy: wrong by 0.2")
def column_in_special_functions() -> Any:
    def body(_m: Any, y: Any, other: Any, alpha: Any) -> Any:
        x = y[..., 16]
        positive, rates = functional.softplus(x) + 1e-4, functional.softplus(other) + 1e-4
        gamma, erf = torch.special.gammaln(positive + alpha), torch.special.erf(x * alpha)
        return torch.stack([torch.special.xlogy(positive, rates) - gamma, erf, torch.logaddexp(x, other)], dim=-1)

    return Layered(body, nn.Linear(32, 32)), torch.randn(4, 8, 32), torch.randn(4, 8), torch.rand(1, 8)


@reproduces(180956, "adaptive_avg_pool2d, flatten and sum: all but the first row are wrong")
def pooled_and_summed() -> Any:
    def body(_m: Any, y: Any) -> Any:
        return functional.adaptive_avg_pool2d(y, 7).flatten(1).sum(-1)

    return Layered(body, nn.Conv2d(1, 33, 1)), torch.randn(3, 1, 8, 8)


@reproduces(175154, "interpolate to the nearest by 1.3 takes another pixel")
def nearest_pixel() -> Any:
    layer = nn.Conv2d(1, 2, 1)
    return Layered(lambda _m, y: functional.interpolate(y, scale_factor=1.3, mode="nearest"), layer), torch.randn(
        1, 1, 1, 2
    )


@reproduces(177839, "logit with eps above 0.5 on a part of a row")
def logit_of_a_part() -> Any:
    return Layered(lambda _m, y: torch.special.logit(y.sigmoid()[:, :17], eps=0.51), nn.Linear(8, 20)), torch.randn(
        2, 8
    )


@reproduces(174891, "adding a complex column: a part is added to the imaginary part")
def complex_column() -> Any:
    def body(_m: Any, y: Any) -> Any:
        found = torch.complex(y, torch.zeros_like(y)) + torch.ones(4, 1, dtype=torch.complex64)
        return torch.view_as_real(found)

    return Layered(body), torch.randn(4, 8)


@reproduces(196596, "addmm with beta=0 takes over what is not a number")
def nothing_times_nan() -> Any:
    def body(m: Any, y: Any) -> Any:
        return torch.addmm(m.kept, y, m.layer.weight, beta=0)

    return Layered(body, kept=torch.full((8,), float("nan"))), torch.randn(1, 8)


@reproduces(174172, "copysign by -0.0 gives positive numbers")
def sign_of_zero() -> Any:
    return Layered(lambda _m, y: torch.copysign(y, -0.0)), torch.randn(4, 8)


class Attention(nn.Module):
    """Attention as scripts write it out; a bias of the keys would have no gradient but rounding."""

    def __init__(self, scale: float, permuted: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(64, 64, bias=False) for _ in range(3))
        self.scale, self.permuted = scale, permuted

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query(x).permute(0, 2, 1, 3), self.key(x), self.value(x).permute(0, 2, 1, 3)
        if self.permuted:
            return ((q @ k.permute(0, 2, 3, 1)) * self.scale).softmax(-1) @ v
        return ((q @ k.permute(0, 2, 1, 3).transpose(-2, -1)).div(self.scale) + mask).softmax(-1) @ v


@reproduces(174049, "attention with a scale of its own is computed with the usual scale")
def own_scale_of_attention() -> Any:
    return Attention(8**-0.5, False), torch.randn(2, 6, 4, 64), torch.zeros(2, 1, 6, 6)


@reproduces(195320, "attention with permuted keys is computed as if they were transposed")
def permuted_keys() -> Any:
    return Attention(0.25, True), torch.randn(2, 6, 4, 64), torch.zeros(1)


@reproduces(174078, "dropout after a transposition drops other elements")
def dropout_of_transposed() -> Any:
    return Layered(lambda _m, y: functional.dropout(y.t().contiguous())), torch.randn(6, 8)


@reproduces(181696, "batch norm in eval() and group norm: the outputs are wrong")
def norms_in_eval() -> Any:
    body = [nn.BatchNorm1d(10), nn.ELU(), nn.GroupNorm(10, 10)]
    return nn.Sequential(nn.Conv1d(10, 10, 1), *body).eval(), torch.randn(6, 10, 12)


@reproduces(126848, "the smallest numbers become zero")
def smallest_numbers() -> Any:
    return Layered(lambda _m, y: y * 2.0**-124 * 2.0**-6), torch.rand(4, 8)


@reproduces(132107, "cumsum of infinite numbers is not a number")
def infinite_sum() -> Any:
    return Layered(
        lambda m, y: (y, (m.kept + y.detach()).cumsum(-1)), kept=torch.full((8,), float("inf"))
    ), torch.randn(4, 8)


@reproduces(105264, "numbers of 8 bits do not overflow")
def numbers_of_8_bits() -> Any:
    def body(_m: Any, y: Any, pixels: Any) -> Any:
        return y * (pixels + pixels).to(torch.int16)

    return Layered(body), torch.randn(4, 8), torch.arange(100, 132, dtype=torch.uint8).view(4, 8)


@reproduces(113143, "numbers of 8 bits do not overflow in a product")
def products_of_8_bits() -> Any:
    def body(_m: Any, y: Any, one: Any) -> Any:
        return y * ((one * 3) * one).to(torch.float32)

    return Layered(body), torch.randn(4, 8), torch.arange(-16, 16, dtype=torch.int8).view(4, 8)


@reproduces(94775, "max_pool2d with ceil_mode has rows of -inf")
def pooled_over_the_edge() -> Any:
    layer = nn.Conv2d(1, 2, 1)
    return Layered(lambda _m, y: functional.max_pool2d(y, 1, stride=2, ceil_mode=True), layer), torch.randn(1, 1, 6, 7)


@reproduces(151525, "random numbers of a product and argmax give another place")
def place_of_random_numbers() -> Any:
    def body(m: Any, y: Any) -> Any:
        noise = torch.randn(64, y[0].numel(), dtype=y.dtype)
        return y, functional.linear(y.flatten(1), noise).argmax(1)

    return Layered(body, nn.ConvTranspose2d(3, 8, 3, stride=2)), torch.randn(1, 3, 16, 16)


@reproduces(183249, "fractional_max_pool2d draws other samples")
def pooled_at_random() -> Any:
    layer = nn.Conv2d(1, 2, 1)
    return Layered(lambda _m, y: functional.fractional_max_pool2d(y, 2, output_size=5), layer), torch.randn(
        2, 1, 12, 12
    )


@reproduces(158643, "dropout and ReLU in place draw other numbers than eager")
def dropout_and_relu_in_place() -> Any:
    layers = [nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(8, 8), nn.Dropout(0.3)), torch.randn(16, 8)
