"""The steps of a TensorFlow function take turns: which way each runs, alone and in several processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from dlc_runtime.compiler.choosing.candidates import EAGER, Budget, Spent
from dlc_runtime.compiler.choosing.choosing import FEWEST_PAIRS
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, NO_ANSWER, TOO_OFTEN, WHOLE, Turns

Share = Callable[[str], list[str]]

STEP = 0.05  # seconds without XLA, so that a block has four steps


class Job:
    """Steps of so many seconds in each way; the first one of a way with XLA compiles."""

    def __init__(self, share: Share | None = None, spent: Spent | None = None, **speeds: float) -> None:
        self.speeds = {EAGER: STEP, WHOLE: speeds["whole"], CLUSTERS: speeds["clusters"]}
        self.turns = Turns((WHOLE, CLUSTERS), Budget(60.0, 0.05), 5, share=share, spent=spent)
        self.ways: list[str] = []
        self.elapsed = 0.0

    def step(self, changed: bool = False, seconds: float = 0.0) -> None:
        way = self.turns.way
        changed = changed or way not in self.ways
        took = seconds or self.speeds[way] + (1.0 if changed else 0.0)
        self.ways.append(way)
        self.elapsed += took
        self.turns.add(took, changed, self.elapsed, len(self.ways))

    def run(self, steps: int, before: Callable[[Job], None] = lambda job: None) -> Job:
        for _ in range(steps):
            before(self)
            self.step()
        return self


def test_the_first_steps_run_without_xla_and_the_fastest_way_is_taken() -> None:
    job = Job(whole=0.03, clusters=0.04).run(400)
    assert job.ways[:6] == [EAGER] * 5 + [WHOLE]
    assert set(job.ways[-100:]) == {WHOLE}
    assert job.turns.choosing.candidates[WHOLE].outcome == "taken"
    assert [news.partition(":")[0] for news in job.turns.choosing.news][:2] == [WHOLE, CLUSTERS]


def test_a_function_that_xla_makes_slower_goes_back_within_the_stated_steps() -> None:
    job = Job(whole=0.1, clusters=0.1).run(400)
    steps_of_a_pair = 2 * (4 + 1)
    assert set(job.ways[5 + 2 * (2 + FEWEST_PAIRS * steps_of_a_pair) :]) == {EAGER}
    assert job.turns.choosing.way == EAGER
    assert job.turns.choosing.decided_at


def test_many_functions_have_one_budget() -> None:
    """As the models of a search, of which each would be let spend a budget."""
    spent = Spent()
    jobs = []
    for _ in range(20):
        job = Job(spent=spent, whole=0.03, clusters=0.03)
        for way in (WHOLE, CLUSTERS):
            job.speeds[way] += 0.04
        jobs.append(job)
        for _ in range(5):
            job.step()
        job.step(changed=True, seconds=25.0)
        job.run(60)
    assert [WHOLE in job.ways[5:] for job in jobs].count(True) <= 3, "25 s of 60 each"
    assert jobs[-1].turns.choosing.as_json()["spent_seconds"] < 100
    assert jobs[-1].turns.choosing.candidates[WHOLE].outcome.startswith("not tried: choosing may take 60 s")


def test_no_difference_means_without_xla() -> None:
    assert set(Job(whole=0.05, clusters=0.0495).run(1000).ways[-200:]) == {EAGER}


def test_a_step_without_xla_that_was_traced_again_is_no_measure_of_its_block() -> None:
    """The block stays: a new shape has the plain step traced in each job."""
    turns = Turns((CLUSTERS,), Budget(60.0, 0.05), 3)
    for seconds, changed in [(9.0, True), (0.1, False), (5.0, True)]:
        turns.add(seconds, changed, 0.0, 1)
    assert turns.choosing.candidates[EAGER].blocks == [0.1]
    assert turns.choosing.candidates[EAGER].compile_seconds == 0.0


def test_the_memory_of_a_way_is_its_peak_without_the_steps_in_which_it_is_compiled() -> None:
    """XLA tries out algorithms meanwhile, for which it takes memory."""
    turns = Turns((CLUSTERS,), Budget(60.0, 0.05), 3)
    peaks = iter((5, 7, 6, 99, 4))
    for seconds, changed in [(0.1, False)] * 3 + [(9.0, True), (0.1, False)]:
        turns.add(seconds, changed, 0.0, 1, lambda: next(peaks))
    found = turns.choosing.candidates
    assert (found[EAGER].memory, found[CLUSTERS].memory) == (7, 4)


def test_once_a_way_is_chosen_the_peak_of_the_device_is_the_script_s() -> None:
    job = Job(whole=0.1, clusters=0.1).run(400)
    job.turns.add(STEP, False, job.elapsed, 401, lambda: pytest.fail("it was read, which resets it"))


def test_a_way_that_xla_refuses_runs_without_it_to_the_block_s_end_and_the_next_way_is_tried() -> None:
    def refuse(job: Job) -> None:
        if job.turns.way == WHOLE:
            job.turns.refuse("XLA lacks AsString")

    job = Job(whole=0.03, clusters=0.03).run(300, refuse)
    assert WHOLE not in job.ways
    assert set(job.ways[-50:]) == {CLUSTERS}
    assert job.turns.choosing.candidates[WHOLE].outcome == "left: XLA lacks AsString"


def test_shapes_that_change_without_an_end_leave_no_way_but_that_without_xla() -> None:
    def refuse(job: Job) -> None:
        if job.turns.way == WHOLE and WHOLE in job.ways:
            job.turns.refuse(TOO_OFTEN)

    job = Job(whole=0.03, clusters=0.03).run(100, refuse)
    assert CLUSTERS not in job.ways
    assert {candidate.outcome for candidate in job.turns.choosing.candidates.values() if candidate.way != EAGER} == {
        f"left: {TOO_OFTEN}"
    }


def test_all_processes_run_each_step_the_same_way_by_the_slowest() -> None:
    told: list[list[str]] = [[], []]
    both = Barrier(2, timeout=60)

    def share_of(rank: int) -> Share:
        def share(text: str) -> list[str]:
            told[rank].append(text)
            number = len(told[rank])
            both.wait()
            return [texts[number - 1] for texts in told]

        return share

    jobs = [Job(share_of(0), whole=0.02, clusters=0.03), Job(share_of(1), whole=0.06, clusters=0.03)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: job.run(400), jobs))
    assert jobs[0].ways == jobs[1].ways
    assert set(jobs[0].ways[-100:]) == {CLUSTERS}


def test_a_process_that_gets_no_answer_goes_on_without_xla() -> None:
    calls: list[str] = []

    def share(text: str) -> list[str]:
        calls.append(text)
        if len(calls) > 4:
            raise TimeoutError
        return [text, text]

    job = Job(share, whole=0.03, clusters=0.03).run(300)
    assert set(job.ways[-200:]) == {EAGER}
    assert job.turns.choosing.candidates[WHOLE].outcome == f"left: {NO_ANSWER}"
    assert len(calls) == 5
