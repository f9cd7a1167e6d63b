"""Starts the launcher as an image does, over a job's folder, with the Python that runs the tests as the image's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from job_folder import JobFolder

LAUNCHER = str(Path("src/entrypoint/launcher.py").resolve())
START = (sys.executable, "-I", "-S", LAUNCHER)
TRAIN = (*START, "train")
BOUND = 60  # seconds; only a hang takes that long


def make_venv(folder: Path) -> str:
    """A new virtual environment at this path, for DLC_VENV."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    return str(folder)


def runnable_job(folder: Path) -> JobFolder:
    """A job in `folder`/ml that lacks only its script."""
    return JobFolder(folder / "ml").hyperparameters().env(DLC_VENV=make_venv(folder / "venv"))


def launched(job: JobFolder, verb: str = "train") -> subprocess.Popen[str]:
    """The launcher, running."""
    return subprocess.Popen((*START, verb), env=job.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def train(job: JobFolder) -> subprocess.CompletedProcess[str]:
    """The launcher's `train` to its end, whatever the exit code."""
    return subprocess.run(TRAIN, env=job.environ, capture_output=True, text=True, timeout=BOUND, check=False)
