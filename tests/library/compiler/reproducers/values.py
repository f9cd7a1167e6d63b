"""Reproducers in which outputs are wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reproducers.case import Layered, reproduces


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


@reproduces(183249, "fractional_max_pool2d draws other samples")
def pooled_at_random() -> Any:
    layer = nn.Conv2d(1, 2, 1)
    return Layered(lambda _m, y: functional.fractional_max_pool2d(y, 2, output_size=5), layer), torch.randn(
        2, 1, 12, 12
    )
