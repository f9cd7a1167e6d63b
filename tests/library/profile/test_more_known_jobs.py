"""More jobs whose truth is known, of seconds each: the verdict is right, or says that it cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_truths import Truth, assert_true, run_jobs
from profile_runs import Runner

from dlc.advice.profile_report import read_profile
from dlc.advice.profile_text import summarize

READS = "bound by reading: workers wait for files or the network"
TRUTHS = {
    "computes": Truth("computing", "not waiting for data"),
    "copies": Truth("computing", "not waiting for data"),
    "reads, one worker": Truth("input", READS),
    "reads, a worker for each core": Truth("input", READS),
    "prepares": Truth("workers", "too few workers"),
    "prepares, one worker": Truth("workers", "too few workers"),
    "a slow sample now and then": Truth("uneven", "a few slow batches"),
}
# The work of other programs in the same container counts as the job's, so the kind may be either of two.
IN_LINES = ("prepares on one processor", "starved by others")


@pytest.fixture(scope="module")
def folders(module_runner: Runner) -> dict[str, Path]:
    return run_jobs(module_runner, *TRUTHS, *IN_LINES)


@pytest.mark.parametrize("job", TRUTHS)
def test_what_a_job_waits_for_is_told_as_it_is(job: str, folders: dict[str, Path]) -> None:
    assert_true(folders[job], TRUTHS[job])


@pytest.mark.parametrize("job", ["reads, one worker", "prepares, one worker", "reads, a worker for each core"])
def test_the_number_of_workers_that_is_named_is_more_than_there_are(job: str, folders: dict[str, Path]) -> None:
    profile = read_profile([folders[job]])
    named = profile.workers_needed
    assert named is None or named > profile.slowest.workers
    if profile.kind in ("input", "workers"):
        assert ("num_workers" in summarize(profile)) == (named is not None)
        assert named is None or f"num_workers={named} (it has " in summarize(profile)


@pytest.mark.parametrize("job", IN_LINES)
def test_workers_that_stand_in_lines_are_seen_in_them(job: str, folders: dict[str, Path]) -> None:
    profile = read_profile([folders[job]])
    assert profile.queued >= 0.25
    assert profile.kind in ("processors", "others")
