"""core.atomic_files: no half-written file is taken for whole, and one process at a time holds a lock."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlc.core.atomic_files import draft_folder, replace_folder, replace_together, report_disk_errors, write_output
from dlc.core.errors import DiskError, UsageError


def test_a_draft_is_gone_after_its_block_whatever_ended_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), draft_folder(tmp_path) as draft:
        (draft / "file").rename(draft / "no folder" / "file")
    assert not any((tmp_path / "drafts").iterdir())


def test_a_full_disk_and_a_file_in_the_way_are_errors_that_name_the_folder(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=f"{tmp_path}: the disk is full"), report_disk_errors(tmp_path):
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(UsageError, match="expected a folder that dlc can write"), report_disk_errors(tmp_path / "logs"):
        (tmp_path / "logs" / "build.log").touch()


@pytest.mark.parametrize("name", ["same", "other"])
def test_folders_within_are_replaced_where_two_folders_cannot_be_exchanged(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS: of what was there only the names of the new folder stay, whether files or folders."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=lambda *_: -1))
    new, old = tmp_path / "new", tmp_path / "old"
    for path in (new / "same/page", new / "kind/page", new / "file", old / name / "page", old / "kind", old / "file/x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.relative_to(tmp_path).parts[0])
    replace_folder(new, old)
    assert read_all(old) == dict.fromkeys(("file", "kind/page", "same/page"), "new")


def test_a_document_that_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, text: str) -> None:
        path.write_bytes(text[: len(text) // 2].encode())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_output(tmp_path / "bill.json", "whole")
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", write_half)
        with pytest.raises(DiskError, match=f"{tmp_path}: the disk is full"):
            write_output(tmp_path / "other.json", "whole")
    assert read_all(tmp_path) == {"bill.json": "whole"}
    with pytest.raises(UsageError, match="expected a folder that dlc can write"):
        write_output(tmp_path / "none/bill.json", "whole")
    write_output(Path("/dev/null"), "whole")


def test_files_and_folders_that_belong_together_are_all_replaced_or_none(tmp_path: Path) -> None:
    texts, folders = {"a/pins.yml": "new"}, {"b/an-image": {"training.txt": "new"}}
    for path in ("a/pins.yml", "b/an-image/training.txt"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("old")
    with pytest.raises(FileNotFoundError):
        replace_together(tmp_path, texts, {**folders, "b/other": {"no-such-folder/last.txt": ""}})
    assert read_all(tmp_path) == {"a/pins.yml": "old", "b/an-image/training.txt": "old"}
    replace_together(tmp_path, texts, {**folders, "c/first": {"training.txt": "new"}})
    assert read_all(tmp_path) == dict.fromkeys(("a/pins.yml", "b/an-image/training.txt", "c/first/training.txt"), "new")


def read_all(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.parametrize("there", [None, [], ["kept", "gone"]], ids=["no folder", "an empty one", "a full one"])
def test_a_folder_takes_the_place_of_another_whole(tmp_path: Path, there: list[str] | None) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.mkdir()
    (new / "kept").write_text("new")
    if there is not None:
        old.mkdir()
        for name in there:
            (old / name).write_text("old")
    replace_folder(new, old)
    assert {path.name: path.read_text() for path in old.iterdir()} == {"kept": "new"}
