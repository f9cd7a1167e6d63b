"""Which of two ways is faster, from blocks in turns: no advice without enough pairs and an interval."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc_runtime.compiler.choosing.verdict import FASTER, SAME, SLOWER, TOO_FEW, UNDECIDED, Pair, judge, outside


def pairs(*ratios: float) -> list[Pair]:
    return [Pair(ratio, 1.0) for ratio in ratios]


@pytest.mark.parametrize(
    ("ratios", "kind", "words"),
    [
        ((1.31, 1.35, 1.36, 1.38, 1.40, 1.42), FASTER, "1.31 to 1.42 times as fast"),
        ((0.77, 0.78, 0.78, 0.78, 0.79, 0.79), SLOWER, "0.77 to 0.79 times as fast"),
        ((0.98, 0.99, 1.0, 1.0, 1.01, 1.02), SAME, "no difference could be seen (0.98 to 1.02, 6 pairs)"),
        ((0.90, 1.0, 1.1, 1.2, 1.3, 1.4), UNDECIDED, "no difference could be seen (0.90 to 1.40, 6 pairs)"),
        ((2.0, 2.0, 2.0), TOO_FEW, "too few steps to tell (3 of at least 6 pairs of blocks)"),
        ((), TOO_FEW, "too few steps to tell (0 of at least 6 pairs of blocks)"),
    ],
)
def test_a_verdict_is_an_interval_in_words(ratios: tuple[float, ...], kind: str, words: str) -> None:
    found = judge(pairs(*ratios))
    assert (found.kind, found.words()) == (kind, words)


def test_a_pair_that_another_program_disturbed_does_not_turn_the_verdict() -> None:
    assert judge(pairs(*[1.4] * 8, 0.01)).kind == FASTER
    assert judge(pairs(*[0.7] * 8, 100.0)).kind == SLOWER


def test_the_interval_leaves_out_as_many_pairs_as_the_sign_test_allows() -> None:
    assert [outside(count) for count in (6, 8, 9, 12, 15, 17, 20, 23, 25)] == [0, 0, 1, 2, 3, 4, 5, 6, 7]


@given(st.lists(st.floats(0.01, 100.0), max_size=60), st.randoms(use_true_random=False))
def test_the_verdict_is_the_same_in_any_order_and_turned_round(ratios: list[float], random_: random.Random) -> None:
    found = judge(pairs(*ratios))
    shuffled = list(ratios)
    random_.shuffle(shuffled)
    assert judge(pairs(*shuffled)) == found
    turned = judge([Pair(pair.other, pair.base) for pair in pairs(*ratios)])
    if found.low is not None and found.high is not None:
        assert (turned.low, turned.high) == (pytest.approx(1 / found.high), pytest.approx(1 / found.low))


def test_nineteen_of_twenty_intervals_hold_the_true_ratio() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(1000):
        found = judge([Pair(1.2 * draw.lognormvariate(0, 0.2), 1.0) for _ in range(15)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.2 <= found.high
    assert held >= 950
