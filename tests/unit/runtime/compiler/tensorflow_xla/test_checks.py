"""When a way's steps are compared with eager again."""

from __future__ import annotations

import itertools

import pytest

from dlc_runtime.compiler.tensorflow_xla.checks import ALLOWED, AT_LEAST, SHARE, Checks


def run(checks: Checks, steps: int, seconds: float, cost: float) -> list[int]:
    """Run steps of so many seconds; return those that were compared again."""
    compared = []
    for step in range(1, steps + 1):
        if checks.is_due(step * seconds):
            compared.append(step)
            checks.add(cost, cost)
    return compared


def test_the_first_steps_that_are_compared_again_are_the_second_the_fourth_the_eighth_or_sooner() -> None:
    compared = run(Checks(1), 600, 0.001, 0.002)
    assert compared[0] == 2
    assert all(later <= 2 * earlier for earlier, later in itertools.pairwise(compared))


@pytest.mark.parametrize("seconds", [0.005, 0.1, 2.0])
def test_in_ten_minutes_comparing_again_takes_a_five_hundredth_of_the_time(seconds: float) -> None:
    steps = int(600 / seconds)
    compared = run(Checks(1), steps, seconds, 2.5 * seconds)
    assert 2.5 * seconds * len(compared) <= 600 * SHARE + 2.5 * seconds
    assert AT_LEAST <= 600 * SHARE


def test_comparisons_never_end() -> None:
    compared = run(Checks(1), 100_000, 0.05, 0.1)
    assert len(compared) > 40
    assert max(later - earlier for earlier, later in itertools.pairwise(compared)) < 20_000


def test_the_steps_of_two_functions_are_others_and_those_of_two_processes_the_same() -> None:
    one, same, other = (run(Checks(seed), 20_000, 0.01, 0.0) for seed in (1, 1, 2))
    assert one == same != other


def test_no_process_compares_a_step_that_another_does_not() -> None:
    """A step that is run twice by one of them would wait for the others."""
    assert run(Checks(1, tell=lambda text: [text, ""]), 1000, 0.01, 0.0) == []
    told: list[str] = []

    def note(text: str) -> list[str]:
        told.append(text)
        return [text, ALLOWED]

    compared = run(Checks(1, tell=note), 1000, 0.01, 1000.0)
    assert compared == [2]
    assert told == [ALLOWED, *[""] * (len(told) - 1)], "each process says whether its own time allows it"


def test_processes_that_hear_nothing_of_each_other_compare_no_later_step() -> None:
    assert run(Checks(1, tell=lambda text: []), 1000, 0.01, 0.0) == []
