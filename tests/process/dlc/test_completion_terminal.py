"""`dlc completion bash` in a bash of its own on a pseudo-terminal: Tab completes verbs, options, images and files."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BOUND_SECONDS = 300.0
PROMPT = "ready> "


class Bash:
    """An interactive bash without anybody's settings."""

    def __init__(self, folder: Path, path: str) -> None:
        self.master, slave = pty.openpty()
        settings = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "TERM": "dumb", "HOME": str(folder), "PS1": PROMPT,
                    "DLC_CACHE_DIR": str(folder / "cache"), "HISTFILE": "", "INPUTRC": "/dev/null"}  # fmt: skip
        self.child = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], cwd=folder, env=settings,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.shown = ""
        self.until(PROMPT)
        self.type('eval "$(dlc completion bash)"; echo it is $((40 + 2))\n')
        self.until(r"it is 42\s+ready> ")

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self.master, text.encode())

    def until(self, pattern: str) -> None:
        deadline = time.monotonic() + BOUND_SECONDS
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, self.shown
            self.shown += os.read(self.master, 65536).decode(errors="replace")

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.master)


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Bash]:
    program = tmp_path / "bin/dlc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dlc "$@"\n')
    program.chmod(0o755)
    (tmp_path / "my-script.py").touch()
    (tmp_path / "cache/jobs").mkdir(parents=True)
    (tmp_path / "cache/jobs/20261120-093000-0a1b2c").write_text("unix:///a.sock\n")
    started = Bash(tmp_path, f"{program.parent}:{os.environ['PATH']}")
    yield started
    started.end()


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("dlc prof", "dlc profile "),
        ("dlc run pytorch-2.13", "dlc run pytorch-2.13-training-cpu-py311 "),
        ("dlc run x --distr", "dlc run x --distributed "),
        ("dlc run x my-", "dlc run x my-script.py "),
        ("dlc run x --wa", "dlc run x --watch "),
        ("dlc logs 2026", "dlc logs 20261120-093000-0a1b2c "),
    ],
)
def test_tab_completes(typed: str, shown: str, bash: Bash) -> None:
    bash.type(f"{typed}\t")
    bash.until(re.escape(shown))
