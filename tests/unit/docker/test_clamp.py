"""docker/scripts/clamp: what a step wrote gets one time; what it only unpacked, and what is mounted, keeps its own."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from types import ModuleType

import pytest

from dlc.core.checkout import find_root

SINCE = 1_000_000_000
NEW, OLD = SINCE + 5, SINCE - 5


@pytest.fixture
def clamp() -> ModuleType:
    path = find_root(Path(__file__).parent) / "docker/scripts/clamp/clamp.py"
    spec = importlib.util.spec_from_file_location("clamp", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entry(path: Path, modified: int, *, folder: bool = False) -> Path:
    if folder:
        path.mkdir(parents=True)
    else:
        path.write_text("")
    os.utime(path, (modified, modified))
    return path


def modified(path: Path) -> int:
    return int(path.lstat().st_mtime)


def test_files_links_and_folders_of_the_step_get_the_one_time(clamp: ModuleType, tmp_path: Path) -> None:
    folder = entry(tmp_path / "new", NEW, folder=True)
    file = entry(folder / "file", NEW)
    link = folder / "link"
    link.symlink_to("nowhere")
    assert clamp.clamp(str(tmp_path), SINCE, set()) == 4  # with tmp_path itself
    assert {modified(path) for path in (folder, file, link)} == {clamp.EPOCH}


def test_what_was_there_before_the_step_or_came_from_a_package_keeps_its_time(
    clamp: ModuleType, tmp_path: Path
) -> None:
    file = entry(tmp_path / "file", OLD)
    clamp.clamp(str(tmp_path), SINCE, set())
    assert modified(file) == OLD


def test_what_is_mounted_is_not_touched(clamp: ModuleType, tmp_path: Path) -> None:
    folder = entry(tmp_path / "mounted", NEW, folder=True)
    inside = entry(folder / "inside", NEW)
    file = entry(tmp_path / "resolv.conf", NEW)
    os.utime(folder, (NEW, NEW))
    clamp.clamp(str(tmp_path), SINCE, {str(folder), str(file)})
    assert {modified(path) for path in (folder, inside, file)} == {NEW}


def test_a_step_began_before_now_and_its_mounts_are_not_the_root(clamp: ModuleType) -> None:
    assert 0 < clamp.started() < time.time()
    assert "/proc" in clamp.mounts()
    assert "/" not in clamp.mounts()
