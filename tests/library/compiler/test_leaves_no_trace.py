"""A comparison runs the forward more often: what a script's code counts, collects and draws is as if it had not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

COUNTS = {"calls": 0}
collected: list[Any] = []
calls = 0


def count() -> None:
    global calls
    calls += 1
    collected.append(calls)


class Base(torch.nn.Module):
    seen: ClassVar[list[Any]] = []
    number = 0

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.python, self.torch = random.Random(3), torch.Generator().manual_seed(3)
        self.numpy = pytest.importorskip("numpy").random.default_rng(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.work()
        return self.layer(x)  # type: ignore[no-any-return]

    def work(self) -> None:
        pass


class Class(Base):
    def work(self) -> None:
        self.seen.append(torch.ones(1))
        type(self).number += 1
        Base.number += 1

    @staticmethod
    def read() -> Any:
        return len(Base.seen), Class.number, Base.number


class Globals(Base):
    def work(self) -> None:
        COUNTS["calls"] += 1
        count()

    @staticmethod
    def read() -> Any:
        return dict(COUNTS), list(collected), calls


class Numbers(Base):
    def work(self) -> None:
        self.python.random(), torch.rand(2, generator=self.torch), self.numpy.random()

    def read(self) -> Any:
        copies = random.Random(), torch.Generator()
        copies[0].setstate(self.python.getstate())
        copies[1].set_state(self.torch.get_state())
        return copies[0].random(), torch.rand(2, generator=copies[1]).tolist(), str(self.numpy.bit_generator.state)


def closed_over() -> tuple[Base, Callable[[], Any]]:
    kept: list[int] = []

    class Closure(Base):
        def work(self) -> None:
            kept.append(1)

    return Closure(), lambda: list(kept)


@pytest.mark.parametrize("kind", [Class, Globals, Numbers, closed_over])
def test_what_a_forward_changes_outside_of_its_module_is_as_before(kind: Any) -> None:
    from dlc_runtime.compiler.pytorch.comparison import compare_with_eager

    module, read = kind() if kind is closed_over else (kind(), None)
    read, x = read or module.read, torch.randn(3, 4)
    module(x)
    before = read()
    compare_with_eager(module, lambda: module(x), lambda: module(x) * (1 + 1e-7), (x,))
    assert read() == before
    module(x)
    assert read() != before
