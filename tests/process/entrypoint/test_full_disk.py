"""failure on a file system that is full: it is a failure, it is said, and it raises nothing."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest

from launch.base.errors import CANNOT_CREATE, Failure, LaunchError, Outcome
from launch.job.archive import unpack_archive
from launch.supervision import failure_report

FAILED = Failure(
    "worker rank 3 on algo-1 exited with code 1", "worker", 3, "algo-1", 1, "", ("Traceback", "ValueError: x")
)


def test_a_full_disk_is_a_failure_even_when_the_process_said_0(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "model").write_bytes(b"x" * 100_000)
    outcome = failure_report.check_disk(Outcome(0), (str(small_disk),), "algo-2")
    assert outcome.exit_code == failure_report.DISK_FULL
    assert outcome.failure is not None
    assert outcome.failure.cause.startswith(f"no space left on {small_disk}")
    assert os.listdir(small_disk) == ["model"]  # noqa: PTH208 - no trace of the probe, hidden or not


def test_a_full_disk_is_added_to_another_failures_cause(small_disk: Path) -> None:
    (small_disk / "model").write_bytes(b"x" * 65536)
    outcome = failure_report.check_disk(Outcome(1, FAILED), (str(small_disk),))
    assert outcome.exit_code == 1
    assert outcome.failure is not None
    assert "exited with code 1; no space left" in outcome.failure.cause


def test_a_disk_too_full_for_the_failure_file_raises_nothing(small_disk: Path) -> None:
    (small_disk / "model").write_bytes(b"x" * 65536)
    assert not failure_report.write_file(str(small_disk / "failure"), Outcome(1, FAILED))


def bomb(path: Path, sizes: list[int]) -> Path:
    """A tar.gz of files of zeros; gzip takes whatever stands in its members, one after the other, for one file."""
    piece = 1 << 24
    zeros = gzip.compress(bytes(piece), 9)
    with path.open("wb") as file:
        for number, size in enumerate(sizes):
            member = tarfile.TarInfo(f"weights-{number}")
            member.size = size
            file.write(gzip.compress(member.tobuf()))
            pieces, rest = divmod(size, piece)
            file.writelines([zeros] * pieces)
            file.write(gzip.compress(bytes(rest + -size % tarfile.BLOCKSIZE)))
        file.write(gzip.compress(bytes(2 * tarfile.BLOCKSIZE)))
    return path


@pytest.mark.parametrize("sizes", [[10 << 30], [4000] * 20], ids=["10 GB in a file of 10 MB", "many small files"])
def test_an_archive_that_would_fill_the_disk_is_refused_before_it_does(
    small_disk: Path, tmp_path: Path, sizes: list[int]
) -> None:
    archive = bomb(tmp_path / "sourcedir.tar.gz", sizes)
    with pytest.raises(
        LaunchError, match=r"not unpacked; expected at most 90% of .* free in .*small; found .* MB"
    ) as e:
        unpack_archive(str(archive), str(small_disk))
    assert e.value.exit_code == CANNOT_CREATE
    assert sum(path.stat().st_size for path in small_disk.iterdir()) < 0.9 * 65536
    (small_disk / "failure").write_bytes(b"x" * 4096)
