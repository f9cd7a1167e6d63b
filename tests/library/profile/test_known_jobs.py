"""Jobs whose truth is known: the verdict of `dlc profile` is right, or says that it cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_truths import Truth, assert_true, run_jobs
from profile_runs import Runner

from dlc.advice.profile_report import read_profile
from dlc.advice.profile_text import summarize
from dlc.core.errors import UnmeasuredError

TRUTHS = {
    "reads": Truth("input", "bound by reading: the training process waits for files or the network"),
    "sleeps beside others": Truth("input", "bound by reading: workers wait"),
    "ranks differ": Truth("input", "the ranks differ: the figures above are those of rank 1"),
    "few steps": Truth("unknown", "cannot be told: 3 steps were measured"),
}


@pytest.fixture(scope="module")
def folders(module_runner: Runner) -> dict[str, Path]:
    return run_jobs(module_runner, *TRUTHS, "no loader")


@pytest.mark.parametrize("job", TRUTHS)
def test_what_a_job_waits_for_is_told_as_it_is(job: str, folders: dict[str, Path]) -> None:
    assert_true(folders[job], TRUTHS[job])


def test_a_job_that_reads_where_it_trains_is_told_a_number_of_workers(folders: dict[str, Path]) -> None:
    profile = read_profile([folders["reads"]])
    assert "give the DataLoader num_workers=" in summarize(profile) or profile.kind != "input"


def test_ranks_that_differ_have_a_row_each(folders: dict[str, Path]) -> None:
    profile = read_profile([folders["ranks differ"]])
    said = summarize(profile)
    assert all(f"  rank {rank} on " in said for rank in (0, 1)), said
    assert profile.slowest.number == 1
    assert profile.step == profile.slowest.step


def test_a_job_without_a_loader_has_an_error_of_its_own(folders: dict[str, Path]) -> None:
    with pytest.raises(UnmeasuredError, match=r"without a loop over a DataLoader or a tf\.data\.Dataset"):
        read_profile([folders["no loader"]])
