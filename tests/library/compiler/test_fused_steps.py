"""An optimizer that the script left open steps with torch's fused kernel where that is faster, and saves the same."""

from __future__ import annotations

from typing import Any

from torch_runs import Runner

USED = {"AdamW", "Adam", "SGD", "transposed"}
WEIGHTS = 1e-6  # two orders of the same additions, over 12 steps


def outcomes(runner: Runner, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = runner.run("fused.py", *more, compiler="").results[0]
    return found


def test_fused_steps_are_used_where_faster_and_train_and_save_the_same(runner: Runner) -> None:
    found = outcomes(runner)
    assert {name for name, case in found.items() if case["notes"]} == USED
    for name, case in found.items():
        assert case["weights"] <= WEIGHTS, name
        assert case["losses"] <= WEIGHTS, name
        assert case["same_groups"], name
        assert case["after_loading"] <= WEIGHTS, name
        if name in USED:
            assert "fused steps are used: 2.00 to 2.00 times as fast as its own" in case["notes"][0]
            assert case["fused_after_loading"] == 0, name
    assert all(found[name]["fused_steps"] > 12 for name in ("AdamW", "Adam", "SGD"))
    # The kernel reads a gradient from end to end, so steps with one that lies otherwise in memory are the script's own.
    assert found["transposed"]["fused_steps"] == found["AdamW"]["fused_steps"] - 2 * (12 - 4)  # two groups
    for case in outcomes(runner, "slow").values():
        assert all("fused steps are not used: 0.50 to 0.50 times as fast" in note for note in case["notes"])
        assert case["losses"] == case["weights"] == 0
