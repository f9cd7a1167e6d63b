"""The training scripts of tests/scripts in images: jobs over them, and data that some of them make for the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlc.core.checkout import find_root
from harness.engine import run_once
from harness.images import Image
from harness.job import Job
from harness.sdk2 import estimator_job

SCRIPTS = find_root() / "tests" / "scripts"


def script_job(image: Image, folder: Path, entry_point: str, hosts: int = 1, **options: Any) -> Job:
    """A job over one of the scripts for the image's framework; `options` are those of `estimator_job`."""
    source, report = SCRIPTS / image.framework, SCRIPTS / "report.py"
    return estimator_job(image, folder, source, entry_point, dependencies=(report,), hosts=hosts, **options)


def made_by(image: Image, script: str, folder: Path) -> Path:
    """A new folder with the channels that one of the scripts writes, run alone in the image."""
    folder.mkdir()
    mounts = ("--volume", f"{SCRIPTS}/{image.framework}:/code:ro", "--volume", f"{folder}:/data")
    done = run_once(image.ref, "python", f"/code/{script}", "/data", options=mounts)
    assert done.returncode == 0, done.stderr
    return folder
