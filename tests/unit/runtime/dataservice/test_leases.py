"""First come, first served: no id goes to two consumers, and none is lost with one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc_runtime.dataservice.schedule.assignment import Leases
from harness.examples import examples

STEPS = st.lists(
    st.tuples(st.sampled_from(["grant", "done", "gone"]), st.integers(0, 3), st.integers(1, 5)), max_size=80
)


@examples(100)
@given(STEPS, st.integers(0, 60))
def test_whatever_consumers_do_every_id_is_done_once(steps: list[tuple[str, int, int]], count: int) -> None:
    leases = Leases(range(count), "give_back")
    held: dict[int, list[int]] = {}
    done: list[int] = []
    for step, consumer, number in [*steps, *[("gone", consumer, 0) for consumer in range(4)]]:
        if step == "grant":
            held.setdefault(consumer, []).extend(leases.grant(consumer, number) or ())
        elif step == "done":
            some = [held.get(consumer, []).pop() for _ in range(min(number, len(held.get(consumer, []))))]
            leases.finish(consumer, some)
            done += some
        else:
            leases.release(consumer)
            held.pop(consumer, None)
    while ids := leases.grant(9, 7):
        leases.finish(9, ids)
        done += ids
    assert sorted(done) == list(range(count))


def test_a_consumer_that_wants_more_waits_while_another_may_still_give_something_back() -> None:
    leases = Leases(range(3), "give_back")
    assert leases.grant(0, 3) == [0, 1, 2]
    assert leases.grant(1, 1) is None
    leases.finish(0, [0])
    leases.release(0)
    assert leases.grant(1, 5) == [1, 2]


def test_an_id_that_a_consumer_does_not_hold_is_refused() -> None:
    leases = Leases(range(3))
    leases.grant(0, 1)
    with pytest.raises(KeyError):
        leases.finish(1, [0])


def test_without_giving_back_nobody_waits_for_what_others_hold() -> None:
    leases = Leases(range(3))
    assert leases.grant(0, 3) == [0, 1, 2]
    assert leases.grant(1, 1) == []
