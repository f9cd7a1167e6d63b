"""Version ranges mean what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.buildspec.versions import release, satisfies, starts_with

numbers = st.lists(st.integers(0, 300), min_size=1, max_size=4)


@given(numbers, numbers)
def test_ranges_order_versions_as_their_numbers(left: list[int], right: list[int]) -> None:
    a, b = ".".join(map(str, left)), ".".join(map(str, right))
    padded = [part + [0] * (4 - len(part)) for part in (left, right)]
    assert satisfies(a, f">={b}") == (padded[0] >= padded[1])
    assert satisfies(a, f"<{b}") == (padded[0] < padded[1])
    assert satisfies(a, f"=={b}") != satisfies(a, f"!={b}")


@pytest.mark.parametrize(
    ("found", "condition", "holds"),
    [
        ("3.11", ">=3.9,<3.12", True),
        ("3.9", ">=3.10", False),
        ("2.13.0+cpu", "==2.13", True),
        ("2.13.0+cpu", ">2.13", False),
        ("cu128", "cu*", True),
        ("cpu", "cu[0-9]*", False),
        ("pytorch", "pytorch", True),
    ],
)
def test_a_condition_is_a_range_or_a_glob(found: str, condition: str, holds: bool) -> None:
    assert satisfies(found, condition) is holds


def test_a_local_version_and_trailing_zeros_do_not_count() -> None:
    assert release("2.13.0+cu128") == release("2.13") == (2, 13)


def test_a_series_ends_at_a_number_boundary() -> None:
    assert starts_with("2.1.3", "2.1")
    assert starts_with("2.1+cpu", "2.1")
    assert not starts_with("2.13.0", "2.1")
    assert not starts_with("12.1", "2.1")
