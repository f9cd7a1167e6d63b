"""When losses of a compiled training are those of the eager one: the benchmarks' tolerance, and what rounding does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("compiling.losses")


@pytest.mark.parametrize(("dtype", "allowed"), [("fp32", "0.001"), ("bf16", "0.02")])
def test_losses_are_those_of_eager_within_the_tolerance_of_the_dtype(losses: Any, dtype: str, allowed: str) -> None:
    tolerance = losses.TOLERANCES[dtype]
    near = losses.compare([4.0, 2.0, 1.0], [4.0, 2.0 + 3.9 * tolerance], [], dtype)
    far = losses.compare([4.0, 2.0, 1.0], [4.0, 2.0, 1.0 - 4.1 * tolerance, 9.0], [], dtype)
    assert near.largest == pytest.approx(0.975 * tolerance)  # as a share of the largest eager loss
    assert losses.is_same(near)
    assert losses.verdict(near, dtype).endswith(f"(at most {allowed})")
    assert not losses.is_same(far)
    assert losses.verdict(far, dtype).startswith("DIFFER from step 3 on: ")


def test_losses_may_differ_by_what_rounding_alone_has_made_until_the_same_step_and_no_more(losses: Any) -> None:
    eager, rounded = [4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.02, 1.0]  # at step 3, 0.005 of the largest
    late = losses.compare(eager, [4.0, 3.0, 2.0, 1.07], rounded, "fp32")
    assert losses.is_same(late)
    assert losses.verdict(late, "fp32") == "1.8e-02 (at most 0.001, or 4 times what rounding alone makes, 5.0e-03)"
    assert not losses.is_same(losses.compare(eager, [4.0, 3.0, 2.0, 1.09], rounded, "fp32"))
    early = losses.compare(eager, [4.0, 3.07, 2.0, 1.0], rounded, "fp32")
    assert early.wrong_step == 2  # as far as at step 4 above, where rounding had not made anything of it yet


def test_only_steps_are_compared_for_which_rounding_was_measured(losses: Any) -> None:
    found = losses.compare([4.0, 3.0, 2.0], [4.0, 3.0, 9.0], [4.0, 3.0], "fp32")
    assert (found.steps, found.wrong_step) == (2, 0)


def test_a_training_without_losses_is_not_compared(losses: Any) -> None:
    assert losses.compare([], [1.0], [], "fp32") is None
    assert losses.verdict(None, "fp32") == "not compared"
