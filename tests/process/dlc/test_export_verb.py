"""`dlc export`: a whole folder or none, with one error; and a Dockerfile that hadolint accepts."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli.site import require_site
from dlc.core.checkout import SourceFile, find_root, read_tree
from dlc.core.errors import DiskError, LockError, SelectorError, UsageError
from dlc.image_build.export.folder import list_files
from dlc.image_build.export.writer import require_new_folder, write_folder
from dlc.plan.plan import make_plan
from harness.installed import TOOLS

ROOT = find_root(Path(__file__).parent)
TORCH = "pytorch-2.13-training-cpu-py311"
HANG_SECONDS = 300.0
FILES = {"Dockerfile": SourceFile(b"FROM scratch\n"), "scripts/run.sh": SourceFile(b"#!/bin/sh\n", executable=True)}
# Writes one file, says so, and waits without end for the next.
WRITING = """
import sys, time
from pathlib import Path
from dlc.image_build.export.writer import write_folder
from dlc.core.checkout import SourceFile

class Slow(dict):
    def items(self):
        yield "Dockerfile", SourceFile(b"FROM scratch")
        print("begun", flush=True)
        time.sleep(600)

write_folder(Slow(), Path(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_folder_is_whole_and_the_next_command_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my image"
    assert main(["export", TORCH, str(folder), "--bake"]) == 0
    said = capsys.readouterr().out
    assert f"next: docker build -t dlc/pytorch:2.13-training-cpu-py311 '{folder}'\n" in said
    assert {path.name for path in folder.iterdir()} == {
        *("Dockerfile", "README.md", "docker-bake.json"),
        *("channel", "debian", "launcher", "library", "locks", "own", "prepare", "scripts"),
    }
    assert os.access(folder / "scripts/os-packages/install.sh", os.X_OK)
    assert [path.name for path in tmp_path.iterdir()] == ["my image"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_folder(FILES, tmp_path / "empty")
    assert (tmp_path / "empty/scripts/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "empty/Dockerfile").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_folder_with_something_in_it_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["export", TORCH, str(tmp_path)]) == UsageError.exit_code
    assert f"{tmp_path}: expected a new or an empty folder, found mine in it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("what", ["a file", "a link", "no parent", "the current folder"])
def test_what_cannot_become_the_folder_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "there"
    if what == "a file":
        folder.write_text("mine")
    elif what == "a link":
        folder.symlink_to(tmp_path)
    elif what == "no parent":
        folder = tmp_path / "nobody" / "there"
    else:
        folder.mkdir()
        monkeypatch.chdir(folder)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError):
        write_folder(FILES, folder)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("pytorch-9.9-*", SelectorError.exit_code, "pytorch-9.9-*: no such image"),
        ("tensorflow-*", UsageError.exit_code, "tensorflow-*: expected one image, found"),
    ],
)
def test_a_word_that_is_not_one_image_writes_nothing(
    word: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", word, str(tmp_path / "there")]) == code
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_missing_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", TORCH, str(tmp_path / "there"), "--set", "packages.training=[einops==0.8.1]"]
    assert main(words) == LockError.exit_code
    assert "no lock" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", TORCH, str(small_disk / "there")]) == DiskError.exit_code
    said = capsys.readouterr().err
    assert f"{small_disk}: the disk is full" in said
    assert "DLC_CACHE_DIR" not in said
    assert list(small_disk.iterdir()) == []


def test_a_read_only_folder_is_one_error(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert main(["export", TORCH, str(small_disk / "there")]) == UsageError.exit_code
    assert f"{small_disk}: expected a folder that dlc can write" in capsys.readouterr().err


def test_a_folder_that_may_not_be_looked_at_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As below another user's home."""

    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_symlink", refuse)
    for require in (require_new_folder, require_site):
        with pytest.raises(UsageError, match=r"expected a folder that dlc can write, found: .*Permission denied"):
            require(tmp_path / "folder")


def test_an_export_that_is_killed_leaves_no_folder_and_the_next_one_removes_its_draft(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    argv = [sys.executable, "-c", WRITING, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writing:
        assert writing.stdout
        assert writing.stdout.readline() == "begun\n"
        writing.send_signal(signal.SIGKILL)
        writing.wait(HANG_SECONDS)
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 1
    write_folder(FILES, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_an_export_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WRITING, str(tmp_path / "there")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as writing:
        assert writing.stdout
        assert writing.stdout.readline() == "begun\n"
        time.sleep(0.1)
        writing.send_signal(signal.SIGINT)
        assert writing.wait(HANG_SECONDS) != 0
    assert list(tmp_path.iterdir()) == []


def test_hadolint_accepts_the_dockerfile_of_every_image(tmp_path: Path) -> None:
    program = shutil.which("hadolint", path=f"{TOOLS}:{os.environ['PATH']}")
    assert program, "hadolint is one of the development tools: scripts/bootstrap.sh dev"
    tree = read_tree(ROOT)
    whole = make_plan(tree)
    plans = [whole.without([other for other in whole.selected if other != name]) for name in whole.selected]
    plans.append(make_plan(tree, [TORCH], ["base.image=debian:12"]))
    paths = []
    for number, plan in enumerate(plans):
        paths.append(tmp_path / f"{number}.Dockerfile")
        paths[-1].write_bytes(list_files(plan, tree, {}, 0)["Dockerfile"].data)
    done = subprocess.run([program, *paths], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)
