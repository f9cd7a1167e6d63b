"""A lock's files as other programs see them: whole at every moment, and ignored by git where they should be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dlc.buildspec.lockfile import FILES
from dlc.buildspec.locks.resolve import store_lock
from dlc.buildspec.matrix import load_variants
from dlc.core import process
from dlc.core.checkout import find_root
from harness.specimen import TORCH_ID, specimen


def texts(word: str) -> dict[str, str]:
    return {name: f"{word} {name}\n" for name in FILES}


def test_a_lock_that_is_replaced_is_there_and_whole_at_every_moment(tmp_path: Path) -> None:
    """As a kill would leave it: another process looks all the time."""
    folder = tmp_path / "an-image"
    store_lock(texts("old"), folder)
    look = f"""
import pathlib, sys
folder = pathlib.Path({str(folder)!r})
print("ready", flush=True)
while not pathlib.Path({str(tmp_path / "stop")!r}).exists():
    if not folder.is_dir():
        sys.exit("no lock for a moment")
"""
    with subprocess.Popen([sys.executable, "-c", look], stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout
        watcher.stdout.readline()
        for number in range(200):
            store_lock(texts(f"run {number}"), folder)
        (tmp_path / "stop").touch()
    assert watcher.returncode == 0


def test_what_a_killed_lock_left_goes_with_the_next_one_and_git_ignores_it(tmp_path: Path) -> None:
    left = tmp_path / ".drafts/tmp1/an-image/framework.txt"
    left.parent.mkdir(parents=True)
    left.touch()
    store_lock(texts("new"), tmp_path / "an-image")
    assert list((tmp_path / ".drafts").iterdir()) == []
    path = "docker/pytorch/locks/.drafts/tmp1/an-image/framework.txt"
    root = find_root(Path(__file__).parent)
    assert process.run_program(["git", "check-ignore", path], cwd=root, check=False).stdout.strip() == path


def test_git_ignores_the_locks_of_set_builds() -> None:
    root = find_root(Path(__file__).parent)
    (variant,) = load_variants(specimen(), [TORCH_ID], ["packages.training=[numpy]"])
    path = f"{variant.lock_folder}/framework.txt"
    assert process.run_program(["git", "check-ignore", path], cwd=root).stdout.strip() == path
