"""What was hashed is what is built: a build gets a folder of its own, whatever happens to the checkout meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest

from dlc.core.checkout import SourceFile, files_below
from dlc.debian import rootfs
from dlc.image_build import host_inputs
from dlc.image_build.host_inputs import SNAPSHOT_TIME, derive_time, snapshot
from dlc.plan.plan import make_plan
from dlc.plan.targets import ENTRYPOINT, UV_LOCK
from harness.specimen import TORCH_ID, changed, specimen

FILES = {"run.sh": SourceFile(b"#!/bin/sh\n", executable=True), "launch/main.py": SourceFile(b"print()\n")}


def test_a_snapshot_holds_exactly_the_files_with_their_modes_and_fixed_times(tmp_path: Path) -> None:
    folder = snapshot(FILES, tmp_path)
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == {name: f.data for name, f in FILES.items()}
    assert {name: oct(path.stat().st_mode & 0o777) for name, path in found.items()} == {
        "run.sh": "0o755", "launch/main.py": "0o644",
    }  # fmt: skip
    times = {name: path.stat().st_mtime for name, path in found.items()}
    assert times == {name: derive_time(file.data) for name, file in FILES.items()}
    assert {path.stat().st_mtime for path in (folder, folder / "launch")} == {SNAPSHOT_TIME}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_file_of_the_same_size_and_other_content_has_another_time_which_is_not_after_1980(tmp_path: Path) -> None:
    """BuildKit would take it for unchanged, and build the old one."""
    times = [
        (snapshot({"main.py": SourceFile(text)}, tmp_path) / "main.py").stat().st_mtime for text in (b"ab\n", b"ba\n")
    ]
    assert times[0] != times[1]
    assert max(times) <= SNAPSHOT_TIME


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "launch/main.py").write_bytes(b"print(1)\n"),
        lambda folder: (folder / "launch/main.py").unlink(),
        lambda folder: (folder / "run.sh").chmod(0o644),
        lambda folder: (folder / "launch").chmod(0o700),
        lambda folder: (folder / "more").touch(),
        lambda folder: (folder / "more").mkdir(),
        lambda folder: (folder / "more").symlink_to("/etc/passwd"),
    ],
    ids=["line", "missing", "mode", "mode of a folder", "another file", "another folder", "link"],
)
def test_a_snapshot_that_somebody_changed_is_made_anew_and_that_is_said(
    damage: Callable[[Path], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(snapshot(FILES, tmp_path))
    folder = snapshot(FILES, tmp_path)
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    assert {name: path.read_bytes() for name, path in found.items()} == {name: f.data for name, f in FILES.items()}
    assert oct((folder / "launch").stat().st_mode & 0o777) == "0o755"
    assert oct((folder / "run.sh").stat().st_mode & 0o777) == "0o755"
    assert "not as it was written; made anew" in capsys.readouterr().err
    assert snapshot(FILES, tmp_path) == folder
    assert not capsys.readouterr().err


def test_a_name_that_is_no_text_is_kept_as_it_is(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    folder = snapshot({name: SourceFile(b"")}, tmp_path)
    assert [path.name for path in folder.iterdir()] == [name]


def test_other_content_another_mode_and_another_name_are_other_folders(tmp_path: Path) -> None:
    others = [
        {**FILES, "run.sh": SourceFile(b"exit\n", executable=True)},
        {**FILES, "run.sh": SourceFile(b"#!/bin/sh\n")},
        {**FILES, "more": SourceFile(b"")},
    ]
    assert len({snapshot(files, tmp_path) for files in (FILES, *others)}) == 4


def test_many_builds_at_once_write_one_whole_folder(tmp_path: Path) -> None:
    many = {f"{number}/file": SourceFile(bytes(1000)) for number in range(50)}
    with ThreadPoolExecutor(16) as pool:
        folders = set(pool.map(lambda _: snapshot(many, tmp_path), range(32)))
    [folder] = folders
    assert len(list(folder.glob("*/file"))) == 50
    assert list(folder.parent.iterdir()) == [folder]


def test_a_build_takes_the_files_of_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/rootfs.tar").touch()
    monkeypatch.setattr(rootfs, "make_rootfs", lambda suite, recorded, cache: cache / "made")
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_INDEX", "https://index.invalid/cpu")
    tree = changed(specimen(), "src/entrypoint/launcher.py", "print('planned')\n")
    # With another uv than this host's, a build would fetch it.
    tree = changed(tree, UV_LOCK, f"uv=={version('uv')} \\\n    --hash=sha256:00\n")
    inputs = host_inputs.collect(make_plan(tree, [TORCH_ID]), tree, tmp_path)
    assert (inputs.contexts[ENTRYPOINT] / "launcher.py").read_text() == "print('planned')\n"
    assert inputs.contexts[ENTRYPOINT] == snapshot(files_below(tree, "src/entrypoint"), tmp_path)
    assert all(path.is_relative_to(tmp_path) for path in (*inputs.contexts.values(), *inputs.dockerfiles.values()))
