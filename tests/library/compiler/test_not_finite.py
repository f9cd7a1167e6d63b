"""Numbers that are not finite are compared as others are, and hide nothing that stands beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

INF, NAN = float("inf"), float("nan")


class Keeps(torch.nn.Module):
    """Writes `after` into its buffer, if it is given one."""

    def __init__(self, kept: list[float]) -> None:
        super().__init__()
        self.layer, self.after = torch.nn.Linear(4, 4), torch.tensor([])
        self.register_buffer("kept", torch.tensor(kept))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.after.numel():
            self.kept.copy_(self.after)  # type: ignore[operator]
        return self.layer(x)  # type: ignore[no-any-return]


class Scales(torch.nn.Module):
    """The gradient of `large` is not finite; that of `small` gets a fault."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.large, self.small = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
        self.scale, self.fault = scale, 1.0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        small = self.small * self.fault + self.small.detach() * (1 - self.fault)
        return x * small, (self.large - self.large.detach()) * self.scale


def refused(module: torch.nn.Module, change: Callable[[Any], None], back: Callable[[Any], None]) -> str:
    from dlc_runtime.compiler.pytorch.comparison import compare_with_eager
    from dlc_runtime.compiler.pytorch.differences import DifferentError

    torch.manual_seed(1)
    x = torch.randn(3, 4)

    def other() -> Any:
        change(module)
        try:
            return module(x)
        finally:
            back(module)

    try:
        compare_with_eager(module, lambda: module(x), other, (x,))
    except DifferentError as error:
        return str(error)
    return ""


def put(name: str, value: Any) -> Callable[[Any], None]:
    return lambda module: object.__setattr__(module, name, value)


@pytest.mark.parametrize("kept", [[NAN, 1.0], [INF, 1.0], [NAN, INF]])
def test_a_buffer_that_is_not_finite_and_not_written_is_no_difference(kept: list[float]) -> None:
    assert refused(Keeps(kept), lambda _module: None, lambda _module: None) == ""


@pytest.mark.parametrize(
    ("kept", "right", "wrong"),
    [
        ([INF, 1.0], [INF, 2.0], [INF, 2.5]),
        ([NAN, 1.0], [NAN, 2.0], [NAN, 2.5]),
        ([INF, -INF], [0.5, 2.0], [0.5, 2.5]),  # as the smallest and the largest number seen so far begin
        ([NAN, NAN], [0.5, 2.0], [NAN, 2.0]),
        ([1.0, 1.0], [INF, 2.0], [-INF, 2.0]),
    ],
)
def test_what_is_written_beside_numbers_that_are_not_finite_is_compared(
    kept: list[float], right: list[float], wrong: list[float]
) -> None:
    for after, fault in ((wrong, True), (right, False)):
        module = Keeps(kept)
        module.after = torch.tensor(right)
        found = refused(module, put("after", torch.tensor(after)), put("after", torch.tensor(right)))
        assert bool(found) == fault, found
        assert found == "" or "what it writes to kept" in found


@pytest.mark.parametrize("scale", [INF, NAN, 1.0])
def test_a_gradient_that_is_not_finite_hides_no_fault_in_others(scale: float) -> None:
    for fault in (0.0, 0.5, 1.0):
        found = refused(Scales(scale), put("fault", fault), put("fault", 1.0))
        assert ("in the gradient of small" in found) == (fault != 1.0), (fault, found)
