"""torch.compile on a GPU: the kernels that it writes compute what plain PyTorch does, forwards and backwards."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def smooth(torch: ModuleType, values: Any) -> Any:
    """Element-wise work that inductor fuses into one kernel, and a sum."""
    return (torch.tanh(values) * torch.exp(-values * values) + torch.sin(values)).sum()


def test_a_compiled_function_and_its_gradient_are_those_of_the_plain_one(compiling: ModuleType) -> None:
    torch = compiling
    plain = torch.linspace(-3, 3, 1 << 16, device="cuda", requires_grad=True)
    fused = plain.detach().clone().requires_grad_()
    expected = smooth(torch, plain)
    expected.backward()
    found = torch.compile(lambda values: smooth(torch, values), fullgraph=True)(fused)
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-2)  # a sum of 65,536 terms of order one
    torch.testing.assert_close(fused.grad, plain.grad, rtol=1e-4, atol=1e-5)


def test_a_compiled_model_trains_as_the_plain_one(compiling: ModuleType) -> None:
    torch = compiling
    losses: dict[str, list[float]] = {}
    for name, prepare in (("plain", lambda model: model), ("compiled", torch.compile)):
        torch.manual_seed(0)
        layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 1)).cuda()
        model = prepare(layers)
        values = torch.randn(256, 64, device="cuda")
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
        losses[name] = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (model(values) - values.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses[name].append(float(loss.detach()))
    assert losses["compiled"] == pytest.approx(losses["plain"], rel=1e-3)
    assert losses["plain"][-1] < losses["plain"][0]
