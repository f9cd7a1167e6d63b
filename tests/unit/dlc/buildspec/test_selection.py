"""Globs select by identifier; one that selects nothing says what is near."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.buildspec.selection import select_images
from dlc.core.errors import SelectorError

IDS = ("pytorch-2.9-training-cu128-py311", "pytorch-2.13-training-cpu-py311", "tensorflow-2.21-training-cpu-py311")


@given(st.lists(st.sampled_from(IDS), unique=True))
def test_an_identifier_selects_itself_in_the_order_of_the_matrix(chosen: list[str]) -> None:
    expected = tuple(name for name in IDS if name in chosen) if chosen else IDS
    assert select_images(chosen, IDS) == expected


def test_several_globs_select_the_union_without_repeats() -> None:
    assert select_images(["pytorch-*", "*-cpu-*"], IDS) == IDS


@pytest.mark.parametrize(
    ("glob", "hint"),
    [
        ("pytorch-2.12-training-cpu-py311", "known versions of pytorch: 2.9, 2.13"),
        ("pytorch-2.13-training-cpu-py313", "did you mean 'pytorch-2.13-training-cpu-py311'"),
        ("pytorch-2.13", "did you mean 'pytorch-2.13-*'?"),
        ("pytorch", "did you mean 'pytorch-*'?"),
        ("pytroch-*", "did you mean 'pytorch'"),
        ("jax-*", "known frameworks: pytorch, tensorflow"),
    ],
)
def test_a_glob_without_a_match_says_what_is_there(glob: str, hint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        select_images(["*-cpu-*", glob], IDS)
    assert caught.value.message.startswith(f"{glob}: no such image")
    assert hint in caught.value.message


def test_every_lost_glob_is_named_at_once() -> None:
    with pytest.raises(SelectorError) as caught:
        select_images(["jax-*", "mxnet-*"], IDS)
    assert len(caught.value.message.splitlines()) == 2
