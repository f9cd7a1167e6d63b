"""The job's token, in a variable or in a file that is removed when it has been read."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.base import settings
from launch.base.errors import CONFIG, NO_INPUT, LaunchError


def test_a_token_out_of_a_file_is_the_jobs_and_the_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("5ec4e7\n")
    stated = {"DLC_JOB_TOKEN_FILE": str(path), "OTHER": "x"}
    assert settings.with_job_token(stated, keep=True) == {"DLC_JOB_TOKEN": "5ec4e7", "OTHER": "x"}
    assert path.exists()
    assert settings.with_job_token(stated) == {"DLC_JOB_TOKEN": "5ec4e7", "OTHER": "x"}
    assert not path.exists()
    with pytest.raises(LaunchError, match="removed when it has been read") as caught:
        settings.with_job_token(stated)
    assert caught.value.exit_code == NO_INPUT


def test_without_a_file_for_the_token_nothing_changes() -> None:
    for stated in ({}, {"DLC_JOB_TOKEN": "x"}, {"DLC_JOB_TOKEN_FILE": ""}):
        assert settings.with_job_token(stated) is stated


@pytest.mark.parametrize(("text", "more"), [("\n", {}), ("x" * 5000, {}), ("x", {"DLC_JOB_TOKEN": "y"})])
def test_a_file_without_a_token_or_beside_one_is_an_error(tmp_path: Path, text: str, more: dict[str, str]) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(LaunchError, match="DLC_JOB_TOKEN_FILE") as caught:
        settings.with_job_token({"DLC_JOB_TOKEN_FILE": str(path), **more})
    assert caught.value.exit_code == CONFIG
    assert path.exists()
