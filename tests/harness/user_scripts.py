"""The training scripts of tests/scripts in images: jobs over them, the packages they bring, data that some make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dlc.core.checkout import find_root
from dlc.core.errors import ProcessError
from dlc.core.process import run_program
from harness.engine import run_once
from harness.images import Image
from harness.job import Job
from harness.sdk2 import estimator_job

SCRIPTS = find_root() / "tests" / "scripts"
PACKAGES = find_root() / "tests" / "integration" / "script-packages.txt"


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


def brought(folder: Path) -> list[Path]:
    """Wheels of what scripts use beside what images have, put into `folder`; none where no package index is reached."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--dest", str(folder)]
    try:
        run_program([sys.executable, "-m", "pip", "download", *options, "-r", str(PACKAGES)])
    except ProcessError as error:
        if "satisfies the requirement" not in str(error):
            raise
    return sorted(folder.glob("*.whl"))
