"""A checkout works whatever the user's git does with line ends."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from dlc.core.checkout import find_root

ROOT = find_root(Path(__file__).parent)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "-C", folder, *who, *words], env=environment, check=True, capture_output=True, timeout=60)


def test_line_ends_stay_as_they_are_committed_where_git_converts_them(tmp_path: Path) -> None:
    """A lock with other bytes is refused, and a script with them does not start."""
    origin, checkout = tmp_path / "origin", tmp_path / "checkout"
    origin.mkdir()
    shutil.copy(ROOT / ".gitattributes", origin)
    (origin / "framework.txt").write_bytes(b"torch==2.13.0\n")
    git(origin, "init", "--quiet")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message", "first")
    git(tmp_path, "clone", "--quiet", "--config", "core.autocrlf=true", str(origin), str(checkout))
    assert (checkout / "framework.txt").read_bytes() == b"torch==2.13.0\n"
