"""Runs a script of scripts/ in another Python, unchanged and measured."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "src"
PATH = f"{SOURCES}:{SOURCES}/entrypoint/python_startup"  # the second as the launcher gives it to every Python of a job
HANGS = 300  # seconds; only a bound


class Ended(NamedTuple):
    code: int
    log: str
    folder: Path

    def report(self, rank: int = 0) -> dict[str, Any]:
        return dict(json.loads((self.folder / f"rank-{rank}.json").read_text()))


class Runner:
    """Runs a script of scripts/ in a Python with torch; the reports are below `folder`."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder

    def run(self, *command: str, **variables: str) -> Ended:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("DLC_")}
        environ = {**ours, "PYTHONPATH": PATH, "OMP_NUM_THREADS": "1", "DLC_PROFILE_REPORT": str(self.folder)}
        done = subprocess.run(
            [self.python, *command], cwd=HERE / "scripts", env={**environ, **variables}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=HANGS, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, self.folder)
