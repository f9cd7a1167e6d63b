"""The largest batch of a function is found by child processes under a real limit, and their deaths end only a trial."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from framework_runs import BOUND_SECONDS, HERE

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


def test_what_a_trial_started_ends_with_it_and_holds_up_nobody(tmp_path: Path) -> None:
    environment = {"CHILDREN": str(tmp_path / "children")}
    function = "trial_functions:dies_with_children"
    found = largest_batch(function, first=4, most=5, steps=1, seconds=60, environment=environment)
    assert found.trials[5] == {"fits": False, "why": "killed"}
    pids = (tmp_path / "children").read_text().split()
    assert len(pids) == 3  # two calls of the batch that fits
    deadline = time.monotonic() + BOUND_SECONDS
    while any(map(runs, pids)):  # a killed process ends a moment later
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid: str) -> bool:
    with contextlib.suppress(OSError):
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    return False


def test_a_trial_that_hangs_is_ended() -> None:
    found = largest_batch("trial_functions:hangs_above_two", first=2, most=3, seconds=4, steps=1)
    assert found.batch == 2
    assert found.trials[3] == {"fits": False, "why": "not done within 4 s"}


def test_another_fault_is_an_error_with_its_words() -> None:
    with pytest.raises(TrialError, match="no batch would help"):
        largest_batch("trial_functions:is_wrong")
