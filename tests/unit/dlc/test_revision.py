"""The commit and the time of a build, where git or a variable says them and where neither does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dlc.build.run import revision_and_epoch
from dlc.core.errors import UsageError


def test_a_host_without_git_builds_from_an_unknown_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert revision_and_epoch(tmp_path) == ("unknown", 0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert revision_and_epoch(tmp_path) == ("unknown", 1790000000)


def test_a_checkout_that_git_reads_nothing_of_is_warned_of_with_the_reason_and_other_folders_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    assert revision_and_epoch(tmp_path)[0] == "unknown"
    assert capsys.readouterr().err == ""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=60)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch: as if another user owned the folder
    assert revision_and_epoch(tmp_path)[0] == "unknown"
    warning = capsys.readouterr().err
    assert warning.startswith(f"dlc: warning: {tmp_path}: the revision in the image is `unknown`: ")
    assert "git config --global --add safe.directory" in warning
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision_and_epoch(tmp_path)[0] == "unknown"
    assert "there is no git on PATH" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "1_0", "9" * 5000])
def test_a_time_that_is_no_number_is_an_error_with_the_variables_name(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(UsageError, match=r"SOURCE_DATE_EPOCH=.*: expected seconds since 1970"):
        revision_and_epoch(tmp_path)
