"""An output folder in which nothing can be written: it is said, and nothing else is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_launcher import runnable_job, train

from harness.job_folder import JobFolder


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[JobFolder]:
    """A job whose output folder is a file system that is mounted read-only."""
    job = runnable_job(tmp_path)
    output = job.base / "output"
    (output / "data").mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", output], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    (output / "data").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", output], check=True)
    yield job
    subprocess.run(["umount", output], check=True)


def test_a_failure_file_that_cannot_be_written_is_mentioned(read_only: JobFolder) -> None:
    done = train(read_only.code(text="raise SystemExit(3)"))
    assert done.returncode == 3
    assert f"dlc: {read_only.base}/output/failure cannot be written: Read-only file system" in done.stderr


def test_what_is_not_there_is_not_said_to_be_of_an_earlier_run(read_only: JobFolder) -> None:
    done = train(read_only.code())
    assert done.returncode == 0
    assert "earlier run" not in done.stderr
    assert "output/success cannot be written" in done.stderr
