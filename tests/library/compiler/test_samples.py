"""When a way that trains is compared again: in its first steps if that is cheap, then within a share of the time."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from dlc_runtime.compiler.pytorch.sampling import EXPECTED_SECONDS, SHARE, Samples

STARTED = 40.0  # seconds before the way's first step


def run(step_seconds: float, comparing: float, job_seconds: float) -> list[int]:
    """Run a job; return the steps that were compared, from the way's first."""
    samples, elapsed, step, found, cost = Samples(), STARTED, 100, [], 0.0
    while elapsed < STARTED + job_seconds:
        step += 1
        elapsed += step_seconds + cost
        if step >= samples.look_at and samples.plan(step, cost, elapsed):
            cost = comparing
            found.append(step + 1 - 100)
        else:
            cost = 0.0
    return found


def test_the_first_samples_are_among_the_first_steps_and_then_ever_further_apart() -> None:
    found = run(0.01, 0.04, 60.0)
    assert found[0] <= 4
    assert len([step for step in found if step <= 64]) >= 3
    assert found[-1] > 1000


@pytest.mark.parametrize("step_seconds", [0.003, 0.05, 0.5, 2.0])
def test_in_ten_minutes_samples_take_the_share_at_most(step_seconds: float) -> None:
    for share in (1.0, 4.0, 12.0):
        cost = share * step_seconds
        spent = cost * len(run(step_seconds, cost, EXPECTED_SECONDS))
        # What a comparison takes is known after the first.
        assert spent <= SHARE * (EXPECTED_SECONDS + STARTED) + max(0.0, cost - 4 * step_seconds)
