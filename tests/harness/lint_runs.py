"""Runs the linter's command: in this process, and in one of its own where that is the point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from dlc.__main__ import main as dlc_main
from dlc_lint.__main__ import main as lint_main

ROOT = Path(__file__).parents[2]
BREAKS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        print(x)
        return self.layer(x)
"""


class Done(NamedTuple):
    """As subprocess.CompletedProcess has it."""

    returncode: int
    stdout: str
    stderr: str


class Here:
    """Runs it in this process, in a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    def __call__(self, module: str, *argv: str) -> Done:
        code = dlc_main(["lint", *argv]) if module == "dlc lint" else lint_main(argv)
        return Done(code, *self.capsys.readouterr())


def process(module: str, *argv: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE ...`; `path` is searched first for modules."""
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    command = [sys.executable, "-m", *module.split(), *argv]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
