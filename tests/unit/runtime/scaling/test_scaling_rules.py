"""Learning rates, warm-up and the search follow the rules that they name."""

from __future__ import annotations

import math

import pytest

from dlc_runtime.scaling import Warmup, scale_learning_rate, scale_steps
from dlc_runtime.scaling.batch_search import largest_that_fits


def test_the_learning_rate_grows_with_the_batch_or_with_its_square_root() -> None:
    assert scale_learning_rate(0.1, 256, 8192) == pytest.approx(3.2)  # the published case of linear scaling
    assert scale_learning_rate(0.1, 256, 8192, "sqrt") == pytest.approx(0.1 * math.sqrt(32))
    assert scale_learning_rate(0.1, 64, 32) == pytest.approx(0.05)
    assert scale_learning_rate(0.1, 64, 64, "sqrt") == 0.1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 1, 1), "base_lr"),
        ((math.inf, 1, 1), "base_lr"),
        ((0.1, 0, 1), "base_batch"),
        ((0.1, 1, -8), "new_batch"),
        ((0.1, 1, 2.5), "new_batch"),
        ((0.1, 1, 2, "cubic"), "rule"),
    ],
)
def test_what_no_rule_can_scale_is_refused_by_its_name(arguments: tuple[float, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        scale_learning_rate(*arguments)


def test_fewer_steps_see_the_same_samples() -> None:
    assert scale_steps(1000, 32, 256) == 125
    assert scale_steps(1000, 32, 96) == 334  # the last one is not left out
    assert scale_steps(0, 32, 96) == 0


def test_a_warm_up_goes_in_a_line_from_the_old_rate_to_the_new_one() -> None:
    factor = Warmup(4, start=0.2)
    assert [factor(step) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert Warmup(0, start=0.2)(0) == 1.0
    assert Warmup(2, then=lambda step: 1 / step)(4) == 0.25


@pytest.mark.parametrize(("steps", "start"), [(-1, 0.0), (4, 1.5), (4, -0.1)])
def test_a_warm_up_that_is_none_is_refused(steps: int, start: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        Warmup(steps, start)


@pytest.mark.parametrize("first", [1, 7, 64, 5000])
@pytest.mark.parametrize("largest", [0, 1, 2, 6, 7, 63, 100, 1000, 4097, 10000])
def test_the_search_finds_the_largest_batch_and_asks_for_none_twice(first: int, largest: int) -> None:
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return batch <= largest

    assert largest_that_fits(first, 10000, fits, fine=0) == min(largest, 10000)
    assert len(asked) == len(set(asked)) <= 30
    assert all(1 <= batch <= 10000 for batch in asked)


def test_a_coarse_search_leaves_less_than_a_sixteenth_and_asks_less() -> None:
    asked: list[int] = []
    found = largest_that_fits(8, 1 << 20, lambda batch: asked.append(batch) or batch <= 1000)
    assert 1000 - 1000 / 16 <= found <= 1000
    assert asked[0] == 8
    assert len(asked) <= 14
