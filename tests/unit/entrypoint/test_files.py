"""files: private ones: nobody else can read them, and nobody else can have prepared where they are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from launch.base import files
from launch.base.errors import CANNOT_CREATE, NO_PERMISSION, LaunchError

SOMEBODY_ELSE = 54321


def test_folder_and_file_are_for_their_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    files.make_private_folder(str(folder))
    files.write_private_file(f"{folder}/secret", "text")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert (folder / "secret").read_text() == "text"


def test_an_own_folder_that_others_could_write_to_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    files.make_private_folder(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_folder_that_another_user_made_before_us_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY_ELSE)
    with pytest.raises(LaunchError, match="DLC_RUN_DIR") as error:
        files.make_private_folder(str(tmp_path))
    assert error.value.exit_code == NO_PERMISSION
    assert f"expected a folder of user {SOMEBODY_ELSE}" in str(error.value)


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(LaunchError, match="a link or a file"):
        files.make_private_folder(str(tmp_path / "run"))


@pytest.mark.parametrize("kind", ["link", "hard link", "file"])
def test_what_lies_where_a_file_goes_is_replaced_and_never_written_to(tmp_path: Path, kind: str) -> None:
    victim, path = tmp_path / "authorized_keys", tmp_path / "file"
    victim.write_text("mine")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "hard link":
        path.hardlink_to(victim)
    else:
        path.write_text("of an earlier run")
    files.write_private_file(str(path), "new")
    assert (victim.read_text(), path.read_text()) == ("mine", "new")


def test_a_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="No such file") as error:
        files.write_private_file(str(tmp_path / "no such folder" / "file"), "")
    assert error.value.exit_code == CANNOT_CREATE
