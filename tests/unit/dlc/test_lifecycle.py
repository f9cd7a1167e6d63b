"""buildspec.lifecycle: who is warned of an end of patch, and from which day on."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from specimen import PYTORCH, PYTORCH_PATH, TORCH_ID, changed, specimen, unlocked

from dlc.buildspec.lifecycle import warnings
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import Tree
from dlc.core.errors import SpecError

END = date(2027, 11, 20)


def with_end(day: str) -> Tree:
    return changed(unlocked(), PYTORCH_PATH, PYTORCH.replace("job: training", f'job: training\neop: "{day}"'))


@pytest.mark.parametrize(
    ("days_left", "words"),
    [(91, ""), (90, "in 90 days"), (0, "in 0 days"), (-1, "1 days ago")],
)
def test_the_warning_begins_90_days_before_the_end(days_left: int, words: str) -> None:
    found = warnings(load_variants(with_end(END.isoformat())), END - timedelta(days=days_left))
    assert [TORCH_ID in line and words in line for line in found] == ([True] if words else [])


def test_images_without_an_end_are_never_warned_of() -> None:
    assert warnings(load_variants(specimen()), date(2999, 1, 1)) == []


@pytest.mark.parametrize(
    ("day", "expected"), [("2027-02-30", "a value that exists"), ("soon", "a date such as 2026-11-20")]
)
def test_a_day_that_does_not_exist_is_an_error_with_its_place(day: str, expected: str) -> None:
    with pytest.raises(SpecError, match=rf"{PYTORCH_PATH}:4:6: eop: expected {expected}.*, found '{day}'"):
        load_variants(with_end(day))
