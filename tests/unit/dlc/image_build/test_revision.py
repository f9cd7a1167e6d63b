"""The commit and the time of a build, where git or a variable says them and where neither does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.errors import UsageError
from dlc.image_build.buildx import read_revision, warn_undated


def test_a_host_without_git_builds_from_an_unknown_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert read_revision(tmp_path) == ("unknown", 0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert read_revision(tmp_path) == ("unknown", 1790000000)


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "1_0", "9" * 5000])
def test_a_time_that_is_no_number_is_an_error_with_the_variables_name(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(UsageError, match=r"SOURCE_DATE_EPOCH=.*: expected seconds since 1970"):
        read_revision(tmp_path)


def test_a_project_without_a_commit_is_told_that_its_image_is_dated_1970_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_undated(tmp_path, "unknown", 0)
    said = capsys.readouterr().err
    assert f"dlc: warning: {tmp_path}: no git commit, so the image is dated 1970-01-01" in said
    assert "git init" in said
    assert "SOURCE_DATE_EPOCH=" in said


@pytest.mark.parametrize(("revision", "epoch"), [("unknown", 1790000000), ("0123abcd", 1790000000), ("dlc-1.0.0", 0)])
def test_an_image_with_a_date_or_of_a_release_is_no_warning(
    revision: str, epoch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_undated(tmp_path, revision, epoch)
    assert capsys.readouterr().err == ""
