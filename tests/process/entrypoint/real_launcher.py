"""Starts the launcher as an image does, over a job's folder, with the Python that runs the tests as the image's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from supervised import SET_CONSTANTS

from harness.job_folder import JobFolder

LAUNCHER = str(Path("src/entrypoint/launcher.py").resolve())
START = (sys.executable, "-I", "-S", LAUNCHER)
TRAIN = (*START, "train")
# The same with some of its own timeouts made small.
HURRIED = f"""{SET_CONSTANTS}
import json, os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
from launch import signals
signals.arm()
set_constants(json.loads(sys.argv[2]))
sys.argv[:] = [sys.argv[1], *sys.argv[3:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
BOUND = 60  # seconds; only a hang takes that long


def make_venv(folder: Path) -> str:
    """A new virtual environment at this path, for DLC_VENV."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    return str(folder)


def runnable_job(folder: Path) -> JobFolder:
    """A job in `folder`/ml that lacks only its script."""
    return JobFolder(folder / "ml").hyperparameters().env(DLC_VENV=make_venv(folder / "venv"))


def command(verb: str = "train", constants: dict[str, float] | None = None) -> list[str]:
    """The launcher's; `constants` are of its modules, as SET_CONSTANTS takes them."""
    if not constants:
        return [*START, verb]
    return [sys.executable, "-I", "-S", "-c", HURRIED, LAUNCHER, json.dumps(constants), verb]


def launched(job: JobFolder, verb: str = "train", constants: dict[str, float] | None = None) -> subprocess.Popen[str]:
    """The launcher, running."""
    argv = command(verb, constants)
    return subprocess.Popen(argv, env=job.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def train(job: JobFolder) -> subprocess.CompletedProcess[str]:
    """The launcher's `train` to its end, whatever the exit code."""
    return subprocess.run(TRAIN, env=job.environ, capture_output=True, text=True, timeout=BOUND, check=False)
