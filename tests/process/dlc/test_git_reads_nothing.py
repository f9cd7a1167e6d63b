"""image_build.run.revision_and_epoch with the real git: a checkout that git refuses to read is warned of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dlc.image_build.buildx import read_revision


def test_a_checkout_that_git_reads_nothing_of_is_warned_of_with_the_reason_and_other_folders_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    assert read_revision(tmp_path)[0] == "unknown"
    assert capsys.readouterr().err == ""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=60)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch: as if another user owned the folder
    assert read_revision(tmp_path)[0] == "unknown"
    warning = capsys.readouterr().err
    assert warning.startswith(f"dlc: warning: {tmp_path}: the revision in the image is `unknown`: ")
    assert "git config --global --add safe.directory" in warning
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_revision(tmp_path)[0] == "unknown"
    assert "there is no git on PATH" in capsys.readouterr().err
