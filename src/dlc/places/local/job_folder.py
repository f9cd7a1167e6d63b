"""Each host's /opt/ml: its config files and code are written before a job, the results gathered after it."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dlc.core.errors import DlcError
from dlc.job.code_files import RESULTS, copy_code
from dlc.job.job_spec import describe_channels
from dlc.places.local.job import Job

# Docker calls a container's first network interface so.
INTERFACE = "eth0"
# Folder in the results -> folder in a host's /opt/ml.
PARTS = {"model": "model", "output": "output/data"}
# A rank's own file, of the compiler's report and of `dlc profile`.
RANK_FILES = "rank-*.json"


def write_folders(job: Job) -> None:
    """Make every host's folder, or none. Raises DlcError if the job's folder holds something already."""
    try:
        (job.folder / "hosts").mkdir(parents=True)
    except FileExistsError:
        raise DlcError(
            f"{job.folder}: expected a folder without the results of another job, found some", "name another folder"
        ) from None
    try:
        if job.checkpoints:
            job.checkpoints.mkdir(parents=True, exist_ok=True)
        for host in job.hosts:
            write_host_folder(job, host)
    except BaseException:
        # Ctrl-C is one of these.
        remove_folders(job)
        raise


def remove_folders(job: Job) -> None:
    """Remove the folders of a job of which no host has started, and those above them that are empty now."""
    shutil.rmtree(job.folder / "hosts", ignore_errors=True)
    # Something else may be in it.
    with suppress(OSError):
        job.folder.rmdir()
        if job.folder.parent.name == RESULTS:
            job.folder.parent.rmdir()


def write_host_folder(job: Job, host: str) -> Path:
    """Make one host's folder and return it."""
    root = job.opt_ml(host)
    config = root / "input" / "config"
    config.mkdir(parents=True)
    for name, content in make_config(job, host).items():
        (config / name).write_text(json.dumps(content, indent=2) + "\n")
    # The mount's place: the engine would make it as root.
    for name in job.channels_of(host):
        (root / "input" / "data" / name).mkdir(parents=True)
    if job.checkpoints:
        (root / "checkpoints").mkdir()
    copy_code(job.code, root / "code", job.folder)
    # The user may be somebody else than the owner of the folders.
    if job.user:
        for path in (root, root / "code"):
            path.chmod(0o777)
    return root


def make_config(job: Job, host: str) -> dict[str, Mapping[str, object]]:
    """Map file names to JSON objects."""
    program = {"sagemaker_program": json.dumps(job.program)} if job.program else {}
    return {
        "resourceconfig.json": make_resource_config(job, host),
        "hyperparameters.json": {**program, **job.hyperparameters},
        "inputdataconfig.json": describe_channels(job.channels_of(host)),
    }


def make_resource_config(job: Job, host: str) -> dict[str, object]:
    """Return who this host is, and who the others are."""
    group = job.group_of(host)
    return {
        "current_host": host,
        "current_instance_type": group.instance_type,
        "current_group_name": group.name,
        "hosts": list(job.hosts),
        "instance_groups": [
            {"instance_group_name": each.name, "instance_type": each.instance_type, "hosts": list(each.hosts)}
            for each in job.groups
        ],
        "network_interface_name": INTERFACE,
    }


@dataclass(frozen=True)
class ResultFile:
    """A file that a host wrote, once the results are collected."""

    host: str
    # Where it is now.
    path: Path
    # Where it belongs in the job's results.
    target: Path

    @property
    def stays(self) -> bool:
        """Tell whether it stayed with its host, because a file of another host has its place."""
        return self.path != self.target


def collect_results(job: Job) -> list[ResultFile]:
    """Move every host's files. Of several files with one name the first host's counts; the others stay."""
    found: list[ResultFile] = []
    for part, place in PARTS.items():
        target = job.folder / part
        target.mkdir(exist_ok=True)
        for host in job.hosts:
            found += _move_all(host, job.opt_ml(host) / place, target)
    return found


def _move_all(host: str, source: Path, target: Path) -> list[ResultFile]:
    """Move the files of a folder. What finds a file of another host at its place stays."""
    found = []
    for folder, names, files in os.walk(source):
        place = target / Path(folder).relative_to(source)
        links = [name for name in names if Path(folder, name).is_symlink()]
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            found.append(ResultFile(host, Path(folder), place))
            names.clear()
            continue
        place.mkdir(exist_ok=True)
        for name in sorted([*files, *links]):
            found.append(_move_file(host, Path(folder, name), place / name))
    return found


def _move_file(host: str, path: Path, target: Path) -> ResultFile:
    """Move a file if its place is free. Of two files with the same bytes one is enough.

    A rank's file gets a place with its host's name: ranks of two hosts may have one number.
    """
    if _have_same_bytes(path, target):
        return ResultFile(host, target, target)
    if os.path.lexists(target) and fnmatchcase(target.name, RANK_FILES):
        target = target.with_name(f"{target.stem}-{host}.json")
    if os.path.lexists(target):
        return ResultFile(host, path, target)
    path.rename(target)
    return ResultFile(host, target, target)


def _have_same_bytes(path: Path, other: Path) -> bool:
    plain = path.is_file() and other.is_file() and not path.is_symlink() and not other.is_symlink()
    return plain and filecmp.cmp(path, other, shallow=False)
