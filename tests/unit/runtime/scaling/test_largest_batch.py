"""The largest batch of a function is found by child processes under a real limit, and their deaths end only a trial."""

from __future__ import annotations

import pytest
from framework_runs import HERE, answer_of

from dlc_runtime.scaling import TrialError, largest_batch

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def functions_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def test_the_batch_found_is_as_large_as_the_limit_allows() -> None:
    found = largest_batch("trial_functions:takes", first=32, memory=256 * MEGABYTE, margin=0.1, steps=2)
    assert 150 <= found.batch <= 230  # megabytes: the interpreter takes some, and a tenth stays free
    peak = found.trials[found.batch]["host"]["peak"]
    assert found.batch * MEGABYTE <= peak <= 0.9 * 256 * MEGABYTE
    assert not found.trials[256]["fits"]


def test_a_killed_trial_is_one_that_does_not_fit() -> None:
    found = largest_batch("trial_functions:dies", first=1, most=64, steps=1)
    assert found.batch == 4
    assert found.trials[8] == {"fits": False, "why": "killed"}


def test_a_trial_that_hangs_is_ended() -> None:
    found = largest_batch("trial_functions:hangs_above_two", first=2, most=3, seconds=10, steps=1)
    assert found.batch == 2
    assert found.trials[3] == {"fits": False, "why": "not done within 10 s"}


def test_another_fault_is_an_error_with_its_words() -> None:
    with pytest.raises(TrialError, match="no batch would help"):
        largest_batch("trial_functions:is_wrong")


def test_a_torch_step_fits_where_the_limit_says() -> None:
    program = (
        "from dlc_runtime.scaling import largest_batch\n"
        "found = largest_batch('trial_functions:trains', first=64, memory=2 << 30, steps=2)\n"
        "import json; print(json.dumps([found.batch, found.trials[found.batch]]))"
    )
    batch, trial = answer_of(program, "torch")
    assert 200 <= batch <= 1900
    assert batch * MEGABYTE <= trial["host"]["peak"] <= 0.9 * (2 << 30)
