"""Gathers what the hosts of a job made into one folder: model/ and output/, as the platform does."""

from __future__ import annotations

import filecmp
import os
from pathlib import Path

from dlc.jobs.run.job import Job

PARTS = {"model": "model", "output": "output/data"}  # in the results -> in a host's /opt/ml


def collect(job: Job) -> list[str]:
    """Move every host's files. Of several with one name the first host's counts; the others stay, one line for each."""
    kept = []
    for part, place in PARTS.items():
        target = job.folder / part
        target.mkdir(exist_ok=True)
        for host in job.hosts:
            kept += _move_all(job.opt_ml(host) / place, target)
    return [f"{path.relative_to(job.folder)} stays there: another host wrote a file of that name" for path in kept]


def _move_all(source: Path, target: Path) -> list[Path]:
    """Move the files of a folder; those that have to stay, because there is another one at their place."""
    kept = []
    for folder, names, files in os.walk(source):
        place = target / Path(folder).relative_to(source)
        links = [name for name in names if Path(folder, name).is_symlink()]
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            kept.append(Path(folder))
            names.clear()
            continue
        place.mkdir(exist_ok=True)
        kept += [Path(folder, name) for name in sorted([*files, *links]) if not _move(Path(folder, name), place / name)]
    return kept


def _move(path: Path, target: Path) -> bool:
    """Whether the target has these bytes now."""
    if not os.path.lexists(target):
        path.rename(target)
        return True
    plain = path.is_file() and target.is_file() and not path.is_symlink() and not target.is_symlink()
    return plain and filecmp.cmp(path, target, shallow=False)
