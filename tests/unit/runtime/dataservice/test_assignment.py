"""Which samples a batch holds and which rank gets it: for all sizes, by property."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given as any_time
from hypothesis import strategies as st

from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.schedule import progress
from dlc_runtime.dataservice.schedule.assignment import Epoch, Permutation, Sampling, Share
from dlc_runtime.dataservice.schedule.progress import Progress
from harness.examples import examples

SAMPLINGS = st.builds(
    Sampling,
    samples=st.integers(0, 300),
    batch_size=st.integers(1, 40),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    seed=st.integers(0, 2**64),
)
SEEDS = st.integers(0, 2**64)


def given(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """With a hundred examples, where all are asked for."""
    return lambda test: examples(100)(any_time(*strategies)(test))


@given(st.integers(1, 3000), SEEDS, st.integers(0, 1000))
def test_a_shuffled_order_has_every_number_once(count: int, seed: int, epoch: int) -> None:
    order = Permutation(count, seed, epoch)
    assert sorted(order[at] for at in range(count)) == list(range(count))


@given(st.integers(1, 3000), SEEDS)
def test_a_shuffled_order_follows_from_its_key_alone(count: int, seed: int) -> None:
    one, other = Permutation(count, seed, 1), Permutation(count, seed, 1)
    assert [one[at] for at in range(count)] == [other[at] for at in range(count)]


def test_positions_of_a_very_large_dataset_need_no_list() -> None:
    order = Permutation(10**12, 1)
    some = [order[at] for at in range(1000)]
    assert len(set(some)) == 1000
    assert max(some) > 10**11


@pytest.mark.parametrize("count", [5, 10, 30])
def test_over_many_epochs_every_sample_comes_at_every_place_about_equally_often(count: int) -> None:
    rounds = 400 * count
    orders = [Permutation(count, 7, epoch) for epoch in range(rounds)]
    first, last = (Counter(order[place] for order in orders) for place in (0, count - 1))
    for seen in (first, last):
        assert len(seen) == count
        assert all(250 < times < 550 for times in seen.values())


def test_the_order_is_the_same_in_every_version_for_jobs_that_resume_with_a_later_one() -> None:
    small, large = Permutation(1000, 7, 3), Permutation(10**12, 7, 3)
    assert [small[at] for at in range(8)] == [802, 378, 266, 229, 818, 827, 241, 790]
    assert [large[at] for at in range(4)] == [9568402662, 244523181471, 210623926755, 7793208575]


def test_neighbours_do_not_stay_neighbours() -> None:
    order = Permutation(10_000, 3)
    close = sum(abs(order[at] - order[at + 1]) < 10 for at in range(9_999))
    assert close < 60  # 20 would be expected of a random order


@given(SAMPLINGS, st.integers(0, 50))
def test_the_batches_of_an_epoch_hold_every_sample_once_but_for_a_dropped_tail(sampling: Sampling, epoch: int) -> None:
    plan = Epoch(sampling, epoch)
    found = list(chain.from_iterable(plan.indices(id_) for id_ in range(sampling.batches)))
    kept = sampling.samples - (sampling.samples % sampling.batch_size if sampling.drop_last else 0)
    assert len(found) == len(set(found)) == kept
    assert set(found) <= set(range(sampling.samples))
    with pytest.raises(IndexError):
        plan.indices(sampling.batches)


@given(st.integers(0, 500), st.integers(1, 20), st.integers(0, 500))
def test_the_shares_of_all_ranks_are_every_batch_once(batches: int, world: int, start: int) -> None:
    start = min(start, batches)
    shares = [Share(rank, world).ids(batches, start) for rank in range(world)]
    assert sorted(chain.from_iterable(shares)) == list(range(start, batches))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 500), st.integers(1, 20), st.integers(0, 500))
def test_with_the_tail_dropped_every_rank_has_the_same_number_of_batches(batches: int, world: int, start: int) -> None:
    start = min(start, batches)
    shares = [Share(rank, world).ids(batches, start, "drop") for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    assert sum(map(len, shares)) == (batches - start) // world * world


@given(st.integers(0, 300), st.integers(1, 8), st.integers(1, 8), st.data())
def test_a_job_resumed_with_another_number_of_ranks_takes_what_the_first_one_did_not(
    batches: int, before: int, after: int, data: st.DataObject
) -> None:
    """Every rank stopped at the same step, as ranks that train together do."""
    step = data.draw(st.integers(0, batches // before))
    first = [Share(rank, before).ids(batches)[:step] for rank in range(before)]
    state = progress.to_state(Progress(epoch=2, taken=step, world=before), "deterministic", {"samples": 1})
    start = progress.from_state(state, "deterministic", {"samples": 1}).next_start
    second = [Share(rank, after).ids(batches, start) for rank in range(after)]
    assert sorted(chain.from_iterable([*first, *second])) == list(range(batches))


@given(st.sets(st.integers(0, 200)), st.integers(0, 200))
def test_ids_that_are_done_and_those_that_are_missing_are_all(done: set[int], count: int) -> None:
    runs = progress.to_runs(done)
    assert {id_ for first, end in runs for id_ in range(first, end)} == done
    assert list(progress.missing_ids(runs, count)) == [id_ for id_ in range(count) if id_ not in done]


@given(st.lists(st.sets(st.integers(0, 60)), max_size=4))
def test_what_several_ranks_did_is_one_set_and_an_id_in_two_of_them_is_refused(parts: list[set[int]]) -> None:
    runs = [progress.to_runs(part) for part in parts]
    if sum(map(len, parts)) == len(set().union(*parts)):
        assert progress.merge_runs(*runs) == progress.to_runs(set().union(*parts))
    else:
        with pytest.raises(SettingError):
            progress.merge_runs(*runs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "expected format 1"),
        ({"order": "first_come"}, "saved with order='first_come'"),
        ({"data": {"samples": 2}}, "other data"),
    ],
)
def test_a_state_that_would_mean_other_samples_is_refused(change: dict[str, object], message: str) -> None:
    state = progress.to_state(Progress(epoch=0), "deterministic", {"samples": 1})
    with pytest.raises(SettingError, match=message):
        progress.from_state({**state, **change}, "deterministic", {"samples": 1})


def test_what_is_in_no_epoch_is_refused() -> None:
    order, plan = Permutation(10, 1), Epoch(Sampling(samples=10, batch_size=5), 0)
    for number in (-1, 10):
        with pytest.raises(IndexError):
            order[number]
    for batch in (-1, 2):
        with pytest.raises(IndexError):
            plan.indices(batch)


@pytest.mark.parametrize("runs", [[(-1, 2)], [(3, 3)], [(3, 2)], [(0, 2), (1, 3)]])
def test_runs_that_no_rank_can_have_done_are_refused(runs: list[tuple[int, int]]) -> None:
    with pytest.raises(SettingError, match="are empty or there twice"):
        progress.merge_runs(runs)


def test_the_states_of_ranks_are_joined_and_those_of_two_steps_are_refused() -> None:
    ranks = [progress.to_state(Progress(1, done=done), "first_come", {}) for done in (((0, 2),), ((2, 3), (5, 6)))]
    joined = progress.from_state(progress.merge_states(ranks), "first_come", {})
    assert joined == Progress(1, done=((0, 3), (5, 6)), merged=True)
    other = progress.to_state(Progress(2), "first_come", {})
    with pytest.raises(SettingError, match="they are not of one step of one job"):
        progress.merge_states([*ranks, other])
