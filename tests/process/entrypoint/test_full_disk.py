"""failure on a file system that is full: it is a failure, it is said, and it raises nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.base.errors import Failure, Outcome
from launch.supervision import failure

FAILED = Failure(
    "worker rank 3 on algo-1 exited with code 1", "worker", 3, "algo-1", 1, "", ("Traceback", "ValueError: x")
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system of 64 KiB needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_a_failure_even_when_the_process_said_0(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "model").write_bytes(b"x" * 100_000)
    outcome = failure.check_disk(Outcome(0), (str(small_disk),), "algo-2")
    assert outcome.exit_code == failure.DISK_FULL
    assert outcome.failure is not None
    assert outcome.failure.cause.startswith(f"no space left on {small_disk}")
    assert os.listdir(small_disk) == ["model"]  # noqa: PTH208 - no trace of the probe, hidden or not


def test_a_full_disk_is_added_to_another_failures_cause(small_disk: Path) -> None:
    (small_disk / "model").write_bytes(b"x" * 65536)
    outcome = failure.check_disk(Outcome(1, FAILED), (str(small_disk),))
    assert outcome.exit_code == 1
    assert outcome.failure is not None
    assert "exited with code 1; no space left" in outcome.failure.cause


def test_a_disk_too_full_for_the_failure_file_raises_nothing(small_disk: Path) -> None:
    (small_disk / "model").write_bytes(b"x" * 65536)
    assert not failure.write(str(small_disk / "failure"), Outcome(1, FAILED))
