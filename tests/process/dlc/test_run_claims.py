"""A job belongs to the dlc that runs it until that process ends, however it ends; then the next dlc may remove it."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlc.core import atomic_files
from dlc.core.errors import DiskError, DlcError, UsageError
from dlc.engine.docker_client import Engine
from dlc.places.local import claims, known_jobs

ENGINE = Engine("unix:///nowhere.sock", "DOCKER_HOST", "1", containerd_store=True)
HOLD = """
import sys
from pathlib import Path
from dlc.engine.docker_client import Engine
from dlc.places.local.claims import claim_job
with claim_job(Path(sys.argv[1]), "other", Engine("unix:///nowhere.sock", "DOCKER_HOST", "1", True)):
    print("held", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    found = claims.take_abandoned(folder)
    for _, descriptor in found:
        os.close(descriptor)
    return [path.name for path, _ in found]


def another_dlc(folder: Path) -> subprocess.Popen[str]:
    """A process that runs the job `other`."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout
    assert child.stdout.readline() == "held\n"
    return child


def test_the_job_of_a_running_dlc_is_left_alone_and_that_of_a_killed_one_is_not(tmp_path: Path) -> None:
    with another_dlc(tmp_path) as child:
        try:
            assert names(tmp_path) == []
            with pytest.raises(DlcError, match="a dlc still runs this job"):
                claims.remove_job(tmp_path, "other", ENGINE)
        finally:
            child.kill()
    assert names(tmp_path) == ["other"]


def test_a_job_that_has_ended_leaves_no_claim(tmp_path: Path) -> None:
    with claims.claim_job(tmp_path / "jobs", "mine", ENGINE):
        assert names(tmp_path / "jobs") == []
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_said_with_the_variable_that_names_another(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(UsageError) as caught, claims.claim_job(tmp_path / "cache/jobs", "mine", ENGINE):
        pytest.fail("nobody looks after this job")
    assert "DLC_CACHE_DIR" in caught.value.remedy


def test_a_claim_that_a_full_disk_cuts_off_is_an_error_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = itertools.count()

    def write(_: int, data: bytes) -> int:
        if next(written):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(data) // 2

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(DiskError, match=f"{tmp_path}: the disk is full"), claims.claim_job(tmp_path, "mine", ENGINE):
        pytest.fail("nobody looks after this job")
    assert list(tmp_path.iterdir()) == []


def test_half_a_claim_of_a_killed_dlc_is_a_job_that_was_left(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text('unix:///nowhere.sock\n{"image": "toy:1", "fol')
    [job] = known_jobs.read_claims(tmp_path)
    assert (job.id, job.state, job.address) == ("mine", known_jobs.LEFT, "unix:///nowhere.sock")


def test_a_job_whose_containers_could_not_be_removed_stays_for_the_next_dlc(tmp_path: Path) -> None:
    with pytest.raises(DlcError, match="still there"), claims.claim_job(tmp_path, "mine", ENGINE):
        raise DlcError("still there")
    assert names(tmp_path) == ["mine"]


def test_what_was_left_on_another_engine_stays_until_that_engine_is_used(tmp_path: Path) -> None:
    """No docker is called here: the engine of this test does not exist."""
    with another_dlc(tmp_path) as child:
        child.kill()
    elsewhere = Engine("unix:///other.sock", "DOCKER_HOST", "1", containerd_store=True)
    assert claims.remove_leftovers(tmp_path, elsewhere) == []
    assert names(tmp_path) == ["other"]


def test_another_dlc_whose_disk_stands_still_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").mkdir()
    other, now = os.open(tmp_path / "jobs", os.O_RDONLY), [0.0]
    assert atomic_files.try_lock(other)

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 120:
            fcntl.flock(other, fcntl.LOCK_UN)

    monkeypatch.setattr(atomic_files, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with claims.claim_job(tmp_path / "jobs", "mine", ENGINE):
        assert now[0] > 120
    assert "waiting for another dlc" in capsys.readouterr().err
    os.close(other)
