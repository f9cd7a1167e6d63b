"""What choosing may cost: nothing begins that the budget has no room for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_choosing_values import Job

from dlc_runtime.compiler import settings
from dlc_runtime.compiler.choosing.candidates import EAGER, WINDOW_STEPS, Budget, Result, slowest
from dlc_runtime.compiler.choosing.choosing import LOADING

DEFAULT = Budget(*settings.BUDGET)
STEP, COLD, LOAD = 0.05, 25.0, 3.0


def job_of(faster: float, seconds: float, expected: float, **options: Any) -> Job:
    """Train for so many eager seconds with one other way that takes `expected` to begin."""
    job = Job({EAGER: STEP, "inductor": STEP / faster}, compiling={"inductor": expected}, **options)
    job.expected = {"inductor": expected}
    job.run_to(round(seconds / STEP))
    return job


@pytest.mark.parametrize("faster", [0.8, 1.0, 1.1])
@pytest.mark.parametrize(("seconds", "most"), [(40, 1.0), (180, 1.02), (1200, 1.005), (7200, 1.005)])
def test_a_job_with_code_that_was_compiled_beside_it_takes_as_long_as_without_the_compiler(
    seconds: float, most: float, faster: float
) -> None:
    job = job_of(faster, seconds, LOAD, budget=DEFAULT)
    assert job.now <= most * job.step * STEP + 1e-6


@pytest.mark.parametrize("faster", [0.8, 1.0, 1.1])
@pytest.mark.parametrize(("seconds", "most"), [(40, 1.0), (180, 1.0), (1200, 1.0), (7200, 1.01)])
def test_a_job_that_compiles_in_its_own_time_waits_for_two_percent_of_it_at_most(
    seconds: float, most: float, faster: float
) -> None:
    job = job_of(faster, seconds, COLD, budget=DEFAULT)
    assert job.now <= most * job.step * STEP + 1e-6


@given(
    expected=st.floats(0.5, 60),
    share=st.floats(0.005, 0.1),
    seconds=st.floats(0, 90),
    faster=st.sampled_from((0.9, 1.1)),
)
def test_compiling_never_takes_more_than_the_budget_if_it_takes_as_long_as_expected(
    expected: float, share: float, seconds: float, faster: float
) -> None:
    budget = Budget(seconds, share)
    job = Job({EAGER: STEP, "inductor": STEP / faster}, compiling={"inductor": expected}, budget=budget)
    job.expected = {"inductor": expected}
    while job.step < 30_000:
        job.run_block()
        assert job.choosing.candidates["inductor"].compile_seconds <= budget.limit(job.now)


def test_what_was_not_begun_says_what_it_would_take_and_how_long_the_job_has_run() -> None:
    job = job_of(1.1, 40, COLD, budget=DEFAULT)
    assert job.row("inductor")["outcome"] == (
        "not begun: it would take about 25 s, this job has run 40 s, choosing may take 0.8 s (DLC_COMPILER_BUDGET)"
    )
    assert job.choosing.words().startswith("eager from step 4 on: no other way was begun; tried: inductor (not begun")
    assert not job.choosing.is_known()


def test_a_way_begins_as_soon_as_the_budget_has_room_for_it() -> None:
    job = job_of(1.1, 0, LOAD, budget=DEFAULT)
    while "inductor" not in job.run_steps and job.step < 10_000:
        job.run_block()
    begun = job.run_steps.index("inductor") * STEP
    assert LOAD / 0.02 <= begun <= LOAD / 0.02 + (WINDOW_STEPS + 1) * STEP
    job.run_to(10_000)
    assert job.choosing.way == "inductor"
    assert job.choosing.words().startswith("inductor from step")


def test_a_budget_in_seconds_that_has_room_for_compiling_lets_it_begin_at_once() -> None:
    job = job_of(1.1, 10, COLD, budget=Budget(60, 0.05))
    assert job.run_steps.index("inductor") == 3


def test_a_way_is_prepared_when_the_job_would_load_it_at_twice_its_age() -> None:
    job = job_of(1.1, 0, COLD, budget=DEFAULT)
    while not job.choosing.may_prepare and job.step < 10_000:
        job.run_block()
    assert LOADING / 0.02 / 2 <= job.now <= LOADING / 0.02 / 2 + (WINDOW_STEPS + 1) * STEP
    assert not Job({"inductor": 0.9}, budget=Budget(0, 0)).choosing.may_prepare


def test_of_two_ways_each_waits_for_its_own_room() -> None:
    job = Job({EAGER: STEP, "regional": STEP / 1.1, "inductor": STEP / 1.3}, budget=DEFAULT)
    job.expected = {"regional": 0.5, "inductor": 10.0}
    job.run_to(2_000)
    assert job.choosing.way == "regional"
    assert job.row("inductor")["outcome"].startswith("not begun: it would take about 10 s")
    job.run_to(30_000)
    assert job.choosing.way == "inductor"


def test_of_several_ranks_the_one_that_would_wait_longest_says_what_a_way_takes() -> None:
    """Ranks that compile nothing beside the training expect nothing."""
    assert slowest([Result(0.1, 0.1, expected=0.0), Result(0.1, 0.1, expected=2.5)]).expected == 2.5
