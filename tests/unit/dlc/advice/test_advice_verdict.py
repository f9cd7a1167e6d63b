"""What a rank waits for is a function of its measured numbers: each rule, at both sides of its bound."""

from __future__ import annotations

from typing import Any

import pytest

from dlc.advice import profile_text, verdict
from dlc.advice.profile_report import Profile
from dlc.advice.rank import Rank
from dlc.advice.verdict import (
    COMPUTING,
    ELSEWHERE,
    INPUT,
    OTHERS,
    PROCESSORS,
    UNEVEN,
    UNKNOWN,
    WORKERS,
    find_kind,
    find_workers,
)

STEPS = 100
CROWDED: dict[str, Any] = {"others": 7.0, "busy": 0.1}
FULL: dict[str, Any] = {"busy": 0.95}


def measured(parts: tuple[float, float, float] = (0.0, 0.0, 1.0), workers: int = 1, **changes: Any) -> Rank:
    """Make a rank that waits 0.09 s and computes 0.01 s in each step; `parts` are a batch's: computing, lines, asleep.

    Its workers never rest.
    """
    batch = 0.09 if not workers else 0.1 * workers
    values = {
        "number": 0, "host": "a", "framework": "torch", "steps": STEPS, "step": 0.01, "waiting": STEPS * 0.09,
        "computing": STEPS * 0.01, "starting": 0.0, "batch_bytes": 1.0, "usable": 8.0, "busy": 0.3, "batches": STEPS,
        "cpu": STEPS * batch * parts[0], "fetching": STEPS * batch, "queued": STEPS * batch * parts[1],
        "workers": workers, "gpu_use": None, "host_cpus": 8.0, "others": 0.1,
    }  # fmt: skip
    return Rank(**{**values, **changes})


@pytest.mark.parametrize(
    ("rank", "kind"),
    [
        (measured(waiting=0.04, computing=0.96), COMPUTING),
        (measured(waiting=0.06, computing=0.94, steps=1), UNKNOWN),
        (measured((0.1, 0.1, 0.8)), INPUT),
        (measured((0.1, 0.1, 0.8), workers=0), INPUT),
        (measured((0.1, 0.1, 0.8), workers=8), INPUT),
        (measured((0.95, 0.05, 0.0)), WORKERS),
        (measured((0.95, 0.05, 0.0), workers=0), WORKERS),
        (measured((0.95, 0.05, 0.0), workers=8, **FULL), PROCESSORS),
        (measured((0.70, 0.30, 0.0)), PROCESSORS),
        (measured((0.76, 0.24, 0.0)), WORKERS),
        # The larger part decides between asleep and in a line.
        (measured((0.20, 0.39, 0.41)), INPUT),
        (measured((0.20, 0.41, 0.39)), PROCESSORS),
        (measured((0.51, 0.0, 0.49)), WORKERS),
        (measured((0.49, 0.0, 0.51)), INPUT),
    ],
)
def test_the_parts_of_a_batchs_time_tell_what_is_waited_for(rank: Rank, kind: str) -> None:
    assert find_kind(rank) == kind


@pytest.mark.parametrize(
    ("parts", "kind"),
    [((0.1, 0.1, 0.8), INPUT), ((0.3, 0.7, 0.0), OTHERS), ((0.9, 0.1, 0.0), WORKERS), ((0.2, 0.39, 0.41), INPUT)],
)
@pytest.mark.parametrize("workers", [0, 1, 8])
def test_on_a_busy_host_other_programs_are_named_only_if_workers_stood_in_lines(
    parts: tuple[float, float, float], workers: int, kind: str
) -> None:
    assert find_kind(measured(parts, workers, **CROWDED)) == kind


@pytest.mark.parametrize(
    ("busy", "others", "kind"), [(0.4, 4.5, OTHERS), (0.6, 3.0, PROCESSORS), (0.4, 0.8, PROCESSORS)]
)
def test_workers_in_lines_stand_behind_other_programs_if_those_had_more_of_the_processors(
    busy: float, others: float, kind: str
) -> None:
    assert find_kind(measured((0.3, 0.7, 0.0), 8, busy=busy, others=others)) == kind


@pytest.mark.parametrize("parts", [(0.1, 0.1, 0.8), (0.05, 0.2, 0.75)])
def test_full_processors_say_nothing_of_workers_that_are_asleep(parts: tuple[float, float, float]) -> None:
    assert find_kind(measured(parts, **FULL)) == INPUT


def test_a_wait_of_the_training_process_for_a_processor_is_no_wait_for_data() -> None:
    taken = measured((0.1, 0.1, 0.8), waiting_queued=STEPS * 0.06)
    assert find_kind(taken) == PROCESSORS
    assert find_kind(measured((0.1, 0.1, 0.8), waiting_queued=STEPS * 0.06, **CROWDED)) == OTHERS
    assert find_kind(measured((0.1, 0.1, 0.8), waiting_queued=STEPS * 0.04)) == INPUT


def test_without_the_kernels_lines_the_host_tells_it_and_the_answer_is_not_sure() -> None:
    rank = measured((0.1, 0.0, 0.9), queued=None, **CROWDED)
    assert find_kind(rank) == OTHERS
    assert "how long workers stood in a line" in profile_text.describe_sureness(Profile((rank,)))
    assert find_kind(measured((0.1, 0.0, 0.9), queued=None, **FULL)) == PROCESSORS
    assert find_kind(measured((0.1, 0.0, 0.9), queued=None)) == INPUT


@pytest.mark.parametrize(("workers", "steps"), [(0, 4), (1, 4), (8, 15)])
def test_fewer_steps_than_workers_prepare_ahead_tell_nothing(workers: int, steps: int) -> None:
    assert find_kind(measured(workers=workers, steps=steps)) == UNKNOWN
    assert find_kind(measured(workers=workers, steps=steps + 1)) != UNKNOWN
    said = profile_text.explain_kind(Profile((measured(workers=workers, steps=steps),)))
    assert said[0].startswith(f"cannot be told: {steps} steps were measured, at least {steps + 1} are needed")


def test_batches_that_nobody_saw_tell_only_what_the_host_tells() -> None:
    assert find_kind(measured(batches=0)) == ELSEWHERE
    assert find_kind(measured(batches=0, **FULL)) == PROCESSORS
    assert find_kind(measured(batches=0, **CROWDED)) == OTHERS


def test_workers_that_rest_are_not_what_training_waits_for() -> None:
    rank = measured((1.0, 0.0, 0.0), fetching=STEPS * 0.04, cpu=STEPS * 0.04)
    assert find_kind(rank) == ELSEWHERE
    assert find_workers(rank) is None
    assert "num_workers" not in profile_text.explain_kind(Profile((rank,)))[0]


def test_a_few_slow_batches_are_named_and_no_number_of_workers() -> None:
    slow: dict[str, Any] = {"slow_batches": 4, "timed_batches": 99, "slow_share": 0.8}
    assert find_kind(measured(workers=2, **slow)) == UNEVEN
    assert find_kind(measured(workers=2, **{**slow, "slow_share": 0.4})) == INPUT
    said = profile_text.explain_kind(Profile((measured(workers=2, **slow),)))[0]
    assert said.startswith("a few slow batches: 4 of 99 batches took 80% of the time of all")
    assert "num_workers" not in said


@pytest.mark.parametrize(
    ("rank", "number"),
    [
        (measured((1.0, 0.0, 0.0), workers=0, busy=0.12), 8),  # 0.09 s for a batch, one each 0.01 s, and 8 processors
        (measured((1.0, 0.0, 0.0), workers=0, usable=64.0), 9),
        (measured((1.0, 0.0, 0.0), workers=0, usable=1.0, busy=0.5), 1),
        (measured((0.0, 0.0, 1.0), workers=0, usable=1.0, busy=0.1), 4),  # asleep, they share a processor
        (measured((1.0, 0.0, 0.0), workers=1, step=0.09), 2),  # enough by the mean, and it never rests
        (measured((1.0, 0.0, 0.0), workers=1, step=0.2), 2),
        (measured((1.0, 0.0, 0.0), workers=8, usable=8.0, busy=1.0), None),
        (measured((1.0, 0.0, 0.0), workers=1, usable=1.0, busy=1.0), None),
    ],
)
def test_a_number_of_workers_is_named_only_if_it_is_more_than_there_are(rank: Rank, number: int | None) -> None:
    assert find_workers(rank) == number


@pytest.mark.parametrize("workers", range(10))
@pytest.mark.parametrize("parts", [(1.0, 0.0, 0.0), (0.5, 0.0, 0.5), (0.0, 0.0, 1.0), (0.3, 0.7, 0.0)])
@pytest.mark.parametrize("step", [0.001, 0.05, 0.09, 0.2])
def test_no_job_is_told_to_take_as_many_workers_as_it_has(
    workers: int, parts: tuple[float, float, float], step: float
) -> None:
    rank = measured(parts, workers, step=step)
    number = find_workers(rank)
    assert number is None or number > workers
    if number is None:
        assert "num_workers" not in "".join(profile_text.explain_kind(Profile((rank,))))


def test_every_kind_has_a_title_and_words() -> None:
    names = ("COMPUTING", "PROCESSORS", "WORKERS", "INPUT", "ELSEWHERE", "OTHERS", "UNEVEN", "UNKNOWN")
    kinds = {getattr(verdict, name) for name in names}
    assert set(profile_text.TITLES) == kinds == set(profile_text._EXPLAIN)


def test_a_busy_gpu_and_an_idle_one_are_told_apart_if_training_does_not_wait() -> None:
    idle = Profile((measured(waiting=0.0, gpu_use=0.2),))
    assert "the GPUs work 20% of the time" in profile_text.explain_kind(idle)[1]
    assert len(profile_text.explain_kind(Profile((measured(waiting=0.0, gpu_use=0.9),)))) == 1


def test_a_virtual_host_whose_processors_were_taken_makes_the_answer_unsure() -> None:
    rank = measured(stolen=2.0)
    assert "the host below this virtual host took 25% of its processors" in profile_text.describe_sureness(
        Profile((rank,))
    )


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        (None, "workers wait for files or the network; "),
        ({"sleep": 9}, "workers wait for files or the network; "),  # too few looks
        ({"sleep": 10, "files": 10}, "workers wait for files or the network; "),  # no majority
        ({"sleep": 11, "files": 1}, "here in calls of sleep; more CPUs change nothing, look at who calls sleep"),
        ({"files": 11}, "here for files; more CPUs change nothing, look at the storage"),
        ({"sockets": 11}, "here for the network or another process"),
        ({"other": 11}, "workers wait for files or the network; "),
    ],
)
def test_what_workers_sleep_in_is_said_if_most_looks_agree(looks: dict[str, int] | None, words: str) -> None:
    assert words in profile_text.explain_kind(Profile((measured(asleep_in=looks),)))[0]


def test_a_worker_that_is_busy_sending_its_batches_does_not_rest() -> None:
    sends = measured(fetching=STEPS * 0.02, cpu=STEPS * 0.09, queued=0.0)
    assert find_kind(sends) == WORKERS
    assert find_kind(measured(fetching=STEPS * 0.02, cpu=STEPS * 0.02, queued=0.0)) == ELSEWHERE
