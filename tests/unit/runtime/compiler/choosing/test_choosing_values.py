"""How a job chooses the way of its steps: in turns, within a budget, eager unless another way is faster for sure."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc_runtime.compiler.choosing import choosing
from dlc_runtime.compiler.choosing.candidates import EAGER, Budget, Result, slowest
from dlc_runtime.compiler.choosing.choosing import Choosing, block_steps

BUDGET = Budget(60.0, 0.05)


class Job:
    """Steps of several ways with the seconds that `speeds` says; the first ones of a way compile."""

    def __init__(self, speeds: dict[str, float], noise: float = 0.0, seed: int = 1, **options: Any) -> None:
        self.speeds, self.noise = {EAGER: 1.0, **speeds}, random.Random(seed)
        self.spread = noise
        self.compile_seconds: dict[str, float] = options.pop("compiling", {})
        self.compile_steps: dict[str, int] = options.pop("compile_steps", {})
        self.failing: dict[str, str] = options.pop("failing", {})
        self.memory: dict[str, int] = options.pop("memory", {})
        self.expected: dict[str, float] = options.pop("expected", {})
        self.compiled: dict[str, int] = {}
        self.now, self.step, self.shapes = 0.0, 0, 7
        self.log: list[str] = []
        self.run_steps: list[str] = []
        ways = [way for way in self.speeds if way != EAGER]
        self.choosing = Choosing(ways, options.pop("budget", BUDGET), 3, **options)

    def run_block(self) -> None:
        block, seconds, compiling, began = self.choosing.block, [], 0.0, self.now
        way = EAGER if block.way in self.failing else block.way
        for number in range(block.skipped + block.steps):
            self.step += 1
            self.run_steps.append(block.way)
            took = self.speeds[way] * (1 + self.noise.uniform(-self.spread, self.spread))
            done = self.compiled.get(way, 0)
            if way != EAGER and done < self.compile_steps.get(way, 1):
                self.compiled[way] = done + 1
                compiling += self.compile_seconds.get(way, 1.0)
                took += self.compile_seconds.get(way, 1.0)
            self.now += took
            if number >= block.skipped:
                seconds.append(took)
        value = sorted(seconds)[len(seconds) // 2]
        failed = self.failing.get(block.way, "")
        memory = self.memory.get(block.way, 0)
        expected = self.expected.get(self.choosing.next_way, 0.0)
        self.choosing.end_block(
            Result(value, self.now - began, compiling, failed, self.now, self.step, memory, self.shapes, expected)
        )
        self.log += self.choosing.news
        self.choosing.news.clear()

    def decide(self, most: int = 500) -> str:
        for _ in range(most):
            self.run_block()
            if self.choosing.decided_at:
                return self.choosing.way
        raise AssertionError(f"not decided after {self.step} steps: {self.log}")

    def run_to(self, step: int) -> None:
        while self.step < step:
            self.run_block()

    def row(self, way: str) -> dict[str, Any]:
        return next(row for row in self.choosing.as_json()["candidates"] if row["way"] == way)


def test_a_faster_way_is_taken_and_the_log_says_from_which_step_on() -> None:
    job = Job({"inductor": 0.7})
    assert job.decide() == "inductor"
    assert job.row("inductor")["outcome"] == "taken"
    assert job.row("inductor")["verdict"] == "1.43 to 1.43 times as fast"
    assert job.log[-1] == f"inductor from step {job.step + 1} on: 1.43 to 1.43 times as fast as eager"


def test_the_log_tells_of_each_candidate_all_that_is_known_and_why() -> None:
    job = Job({"inductor": 0.7, "regional": 1.4}, compiling={"inductor": 30.1}, memory={"inductor": 19 << 29})
    job.decide()
    assert job.log[:2] == [
        "inductor: 7 steps, 700.0 ms a step beside 1000.0 ms of eager, 1.43 to 1.43 times as fast, compiling 30.1 s, "
        "9.5 GiB: taken",
        "regional: 7 steps, 1400.0 ms a step beside 700.0 ms of inductor, 0.50 to 0.50 times as fast, compiling 1.0 s: "
        "left: slower",
    ]


def test_a_slower_way_is_left_within_the_stated_steps() -> None:
    """The baseline, one step that compiles, one that does not, six pairs, seven first steps of a turn."""
    job = Job({"inductor": 1.5})
    assert job.decide() == EAGER
    assert job.step == 3 + 1 + 1 + 6 * 2 + 7
    assert job.row("inductor")["outcome"] == "left: slower"
    assert job.log[-1].startswith(f"eager from step {job.step + 1} on: no other way was faster for sure")
    assert "inductor (0.67 to 0.67 times as fast)" in job.log[-1]


def test_a_way_that_is_as_fast_is_left() -> None:
    job = Job({"inductor": 0.99})
    assert job.decide() == EAGER
    assert job.row("inductor")["outcome"] == "left: no faster"


def test_what_noise_hides_is_left_and_said_to_be_undecided() -> None:
    job = Job({"inductor": 0.99}, noise=0.3, budget=Budget(1e6, 0))
    assert job.decide() == EAGER
    assert "left: not seen to be faster with 30 pairs" in job.row("inductor")["outcome"]
    assert job.row("inductor")["verdict"].startswith("no difference could be seen")


@pytest.mark.parametrize("seed", range(20))
def test_on_a_loaded_host_a_verdict_never_has_the_wrong_sign(seed: int) -> None:
    assert Job({"inductor": 1.3}, noise=0.4, seed=seed, budget=Budget(1e6, 0)).decide() == EAGER
    job = Job({"inductor": 0.7}, noise=0.4, seed=seed, budget=Budget(1e6, 0))
    job.decide()
    assert job.row("inductor")["outcome"] != "left: slower"


def test_the_ways_take_turns_and_each_is_first_as_often() -> None:
    job = Job({"inductor": 0.7})
    job.decide()
    turns = [way for index, way in enumerate(job.run_steps) if index == 0 or job.run_steps[index - 1] != way]
    assert turns == [EAGER, "inductor", EAGER, "inductor", EAGER, "inductor", EAGER, "inductor"]


def test_the_winner_is_compared_with_the_next_candidate() -> None:
    job = Job({"inductor": 0.8, "cuda-graphs": 0.4, "regional": 0.7})
    assert job.decide() == "cuda-graphs"
    rows = {row["way"]: (row["against"], row["outcome"]) for row in job.choosing.as_json()["candidates"]}
    assert rows["inductor"] == (EAGER, "left for cuda-graphs")
    assert rows["cuda-graphs"] == ("inductor", "taken")
    assert rows["regional"] == ("cuda-graphs", "left: slower")


def test_no_candidate_is_begun_when_the_budget_is_used_up() -> None:
    job = Job({"inductor": 0.8, "regional": 0.4}, compiling={"inductor": 100.0})
    assert job.decide() == "inductor"
    assert "not tried: choosing may take 60 s (DLC_COMPILER_BUDGET)" in job.row("regional")["outcome"]
    assert job.choosing.spent > 99


def test_a_budget_of_nothing_keeps_the_job_eager() -> None:
    job = Job({"inductor": 0.5}, budget=Budget(0, 0))
    assert job.decide() == EAGER
    assert set(job.run_steps) == {EAGER}


def test_a_way_that_compiles_in_every_step_is_left() -> None:
    job = Job({"inductor": 0.5}, compile_steps={"inductor": 1000})
    assert job.decide() == EAGER
    assert job.row("inductor")["outcome"] == "left: compiled again in each of 20 steps"
    slow = Job({"inductor": 0.5}, compile_steps={"inductor": 1000}, compiling={"inductor": 40.0})
    assert slow.decide() == EAGER
    assert "still compiling" in slow.row("inductor")["outcome"]
    assert slow.step == 3 + 3


def test_a_candidate_that_fails_is_left_with_its_reason_and_the_next_is_tried() -> None:
    job = Job({"inductor": 0.5, "cuda-graphs": 0.6}, failing={"inductor": "out of memory"})
    assert job.decide() == "cuda-graphs"
    assert job.row("inductor")["outcome"] == "left: out of memory"


def test_a_kept_decision_is_taken_at_once() -> None:
    job = Job({"inductor": 0.5}, kept=("inductor", "1.90 to 2.00 times as fast as eager"))
    assert job.decide() == "inductor"
    assert job.step == 3
    assert "as a job before has chosen: 1.90 to 2.00" in job.log[-1]
    eager = Job({"inductor": 0.5}, kept=(EAGER, "no other way was faster for sure"))
    assert eager.decide() == EAGER
    for _ in range(20):
        eager.run_block()
    assert set(eager.run_steps) == {EAGER}


def test_a_kept_way_that_is_still_faster_costs_one_block_of_eager_steps() -> None:
    job = Job({"inductor": 0.5}, kept=("inductor", "1.90 to 2.00 times as fast as eager"))
    job.decide()
    job.run_to(900)
    assert job.choosing.way == "inductor"
    assert 1 <= job.run_steps[3:].count(EAGER) <= 2


def test_a_kept_way_that_is_slower_today_is_given_up_within_the_first_steps() -> None:
    job = Job({"inductor": 2.0}, kept=("inductor", "1.90 to 2.00 times as fast as eager"))
    job.decide()
    while job.choosing.way != EAGER:
        job.run_block()
    assert job.step <= 3 + 2 + 4 * choosing.FEWEST_PAIRS  # each block is a step and the one after the switch
    assert job.log[-1].endswith("inductor was given up: 0.50 to 0.50 times as fast as eager")


def test_a_kept_way_that_does_not_run_today_is_given_up_at_its_first_step() -> None:
    job = Job({"inductor": 0.5}, kept=("inductor", "1.90 times as fast"), failing={"inductor": "out of memory"})
    job.decide()
    job.run_block()
    assert (job.step, job.choosing.way) == (4, EAGER)


def test_a_way_that_falls_behind_later_is_given_up() -> None:
    job = Job({"inductor": 0.5})
    job.decide()
    job.speeds["inductor"] = 1.4
    for _ in range(60):
        job.run_block()
    assert job.choosing.way == EAGER
    assert "inductor was given up: 0.71 to 0.71 times as fast as eager" in job.log[-1]
    assert job.choosing.reason == "inductor was given up: 0.71 to 0.71 times as fast as eager"


def test_a_way_that_stays_ahead_costs_one_pair_in_a_thousand_steps() -> None:
    job = Job({"inductor": 0.5})
    decided = len(job.run_steps) if job.decide() else 0
    while job.step < 10_000:
        job.run_block()
    assert job.choosing.way == "inductor"
    assert 10 <= job.run_steps[decided:].count(EAGER) <= 40


def test_a_job_whose_eager_steps_change_for_good_chooses_again() -> None:
    job = Job({"inductor": 1.5})
    job.decide()
    job.speeds.update({EAGER: 4.0, "inductor": 1.5})
    for _ in range(40):
        job.run_block()
    assert job.choosing.way == "inductor"


def again(job: Job) -> list[int]:
    """The steps after which it chose again."""
    lines = [line for line in job.log if line.endswith(": choosing again")]
    return [int(line.partition("after step ")[2].partition(":")[0]) for line in lines]


def test_on_a_host_whose_speed_comes_and_goes_each_new_choice_needs_twice_as_many_steps() -> None:
    job = Job({"inductor": 1.1})
    job.decide()
    while job.step < 50_000:
        busy = job.step % 3000 >= 1500
        job.speeds.update({EAGER: 1.5, "inductor": 1.65} if busy else {EAGER: 1.0, "inductor": 1.1})
        job.run_block()
    steps = again(job)
    assert 1 <= len(steps) <= 3
    assert job.choosing.way == EAGER
    assert [set(job.run_steps[step - 400 : step]) for step in steps] == [{EAGER}] * len(steps)
    assert job.choosing.spent <= BUDGET.limit(job.now)


def test_all_that_is_spent_on_choosing_again_stays_in_the_budget() -> None:
    budget = Budget(20.0, 0.0)
    job = Job({"inductor": 1.5}, budget=budget)
    job.decide()
    first = job.choosing.spent
    assert first < budget.seconds
    for speed in (2.0, 4.0):
        job.speeds.update({EAGER: speed, "inductor": speed * 1.5})
        end = job.step + 8000
        while job.step < end:
            job.run_block()
    assert again(job)
    assert job.choosing.spent <= budget.seconds + (6.0 - 4.0) * 2, "a turn of two steps may pass it"


def test_slower_and_then_faster_windows_are_no_change_for_good() -> None:
    assert choosing.drifted_on(choosing.drifted_on(0, 1.3), 1.3) == 2
    assert choosing.drifted_on(choosing.drifted_on(0, 1.3), 0.7) == -1
    assert choosing.drifted_on(choosing.drifted_on(0, 0.7), 0.7) == -2
    assert choosing.drifted_on(5, 1.2) == choosing.drifted_on(-5, 0.81) == 0


def test_a_candidate_that_the_budget_left_out_is_tried_when_the_job_has_grown() -> None:
    job = Job({"inductor": 0.8, "regional": 0.4}, compiling={"inductor": 100.0})
    assert job.decide() == "inductor"
    job.run_to(1800)
    assert job.choosing.way == "inductor"
    job.run_to(3500)
    assert job.choosing.way == "regional"
    assert job.row("inductor")["outcome"] == "left for regional"
    assert f"regional from step {job.choosing.decided_at + 1} on: 2.00 to 2.00 times as fast as inductor" in job.log[-1]


def test_a_candidate_that_was_still_compiling_is_tried_again_within_the_share_of_the_job() -> None:
    job = Job({"inductor": 0.5}, compile_steps={"inductor": 5}, compiling={"inductor": 40.0})
    assert job.decide() == EAGER
    assert "left: still compiling" in job.row("inductor")["outcome"]
    job.run_to(5000)
    assert job.choosing.way == "inductor"
    assert job.choosing.spent < BUDGET.limit(job.now)


@pytest.mark.parametrize("budget", [Budget(0, 0), Budget(60, 0)])
def test_a_budget_that_does_not_grow_leaves_out_for_good(budget: Budget) -> None:
    job = Job({"inductor": 0.8, "regional": 0.4}, compiling={"inductor": 100.0}, budget=budget)
    job.decide()
    job.run_to(50_000)
    assert "regional" not in job.run_steps


def test_after_a_change_a_chosen_way_meets_the_others_again() -> None:
    job = Job({"inductor": 0.5, "regional": 0.6})
    assert job.decide() == "inductor"
    job.speeds.update({EAGER: 3.0, "inductor": 2.0, "regional": 1.0})
    job.run_to(job.step + 1000)
    assert job.choosing.way == "regional"
    assert [line.partition(" after step")[0] for line in job.log if line.endswith(": choosing again")] == [
        "inductor steps changed their speed for good"
    ]
    assert job.row("regional")["against"] == "inductor"


def test_a_chosen_way_stays_if_the_others_are_no_faster_after_a_change() -> None:
    job = Job({"inductor": 0.5, "regional": 0.6})
    job.decide()
    decided, reason = job.choosing.decided_at, job.choosing.reason
    job.speeds.update({EAGER: 2.0, "inductor": 1.0, "regional": 1.2})
    job.run_to(job.step + 1000)
    assert (job.choosing.way, job.choosing.decided_at, job.choosing.reason) == ("inductor", decided, reason)
    assert job.log[-1] == "inductor stays: no other way was faster for sure"


def test_new_shapes_that_stay_are_a_change_and_those_that_come_and_go_are_none() -> None:
    job = Job({"inductor": 0.5, "regional": 0.6})
    job.decide()
    job.run_to(job.step + 400)
    for shapes in range(8, 20):
        job.shapes = shapes
        job.run_to(job.step + 200)
    assert again(job) == []
    job.speeds.update({"inductor": 0.5, "regional": 0.4})
    job.run_to(job.step + 1000)
    assert len(again(job)) == 1
    assert "the data have other shapes after step" in "\n".join(job.log)
    assert job.choosing.way == "regional"


def test_where_a_way_is_given_up_the_next_best_is_found() -> None:
    job = Job({"inductor": 0.7, "cuda-graphs": 0.5})
    assert job.decide() == "cuda-graphs"
    job.failing["cuda-graphs"] = "out of memory"
    job.run_to(job.step + 400)
    assert job.choosing.way == "inductor"
    assert "cuda-graphs was given up: out of memory" in "\n".join(job.log)
    assert job.choosing.words().startswith(f"inductor from step {job.choosing.decided_at + 1} on: 1.43 to 1.43")


def test_a_chosen_way_that_fails_later_is_given_up() -> None:
    job = Job({"inductor": 0.5})
    job.decide()
    job.failing["inductor"] = "out of memory"
    job.run_block()
    assert job.choosing.way == EAGER
    assert "was given up: out of memory" in job.log[-1]


@given(
    st.dictionaries(st.sampled_from(["inductor", "cuda-graphs", "regional"]), st.floats(0.05, 20), min_size=1),
    st.floats(0, 0.9),
    st.integers(0, 1000),
)
def test_every_job_decides_and_takes_nothing_that_was_slower_for_sure(
    speeds: dict[str, float], noise: float, seed: int
) -> None:
    job = Job(speeds, noise, seed)
    chosen = job.decide(2000)
    assert chosen in job.speeds
    assert "slower" not in job.row(chosen)["outcome"]
    assert job.step <= 3 + len(speeds) * (21 + 50 * 3 * (choosing.MOST_PAIRS + choosing.MOST_THROWN))


@pytest.mark.parametrize(("seconds", "steps"), [(10.0, 1), (0.2, 1), (0.05, 4), (0.001, 50), (0.0, 50)])
def test_a_block_is_a_fifth_of_a_second_or_one_step_and_bounded(seconds: float, steps: int) -> None:
    assert block_steps(seconds) == steps


def test_ranks_are_as_slow_as_the_slowest_and_fail_together() -> None:
    found = slowest([Result(1.0, 5.0, 0.0, "", 9.0, 7, 10, 3), Result(2.0, 4.0, 3.0, "no memory", 8.0, 7, 20, 4)])
    assert found == Result(2.0, 5.0, 3.0, "no memory", 9.0, 7, 20, 3)
    assert slowest([Result(None, 1.0), Result(1.0, 1.0)]).seconds is None


@pytest.mark.parametrize(("speed", "noise", "known"), [(1.3, 0.01, True), (0.5, 0.01, True), (1.0, 0.3, False)])
def test_only_what_was_shown_for_sure_is_kept_for_the_next_job(speed: float, noise: float, known: bool) -> None:
    """A busy host measures 0.66 to 1.58: that says nothing of the next job."""
    job = Job({"inductor": speed}, noise=noise)
    job.decide()
    assert job.choosing.is_known() == known
