"""Writes each host's folder, which is /opt/ml in its container: config files, the code, a place for each channel."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dlc.core.errors import DiskError, DlcError
from dlc.jobs.run.config import config_files
from dlc.jobs.run.job import Job

LEFT_OUT = {".git", ".venv"}  # at the top of a folder of code: large, and no part of it
COMPILED = "__pycache__"  # anywhere
FULL = re.compile(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]")


def lay_out(job: Job) -> None:
    """Make every host's folder, or none. Raises DlcError where the job's folder holds something already."""
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
            lay_out_host(job, host)
    except BaseException:  # a Ctrl-C too
        remove_folders(job)
        raise


def remove_folders(job: Job) -> None:
    """Remove the folders of a job of which no host has started, and those above them that are empty now."""
    shutil.rmtree(job.folder / "hosts", ignore_errors=True)
    with suppress(OSError):  # something else is in it
        job.folder.rmdir()
        if job.folder.parent.name == RESULTS:
            job.folder.parent.rmdir()


def lay_out_host(job: Job, host: str) -> Path:
    """Make one host's folder and return it."""
    root = job.opt_ml(host)
    config = root / "input" / "config"
    config.mkdir(parents=True)
    for name, content in config_files(job, host).items():
        (config / name).write_text(json.dumps(content, indent=2) + "\n")
    for name in job.channels:  # the mount's place: the engine would make it as root
        (root / "input" / "data" / name).mkdir(parents=True)
    if job.checkpoints:
        (root / "checkpoints").mkdir()
    _copy_code(job, root / "code")
    if job.user:  # somebody else than who made the folders
        for path in (root, root / "code"):
            path.chmod(0o777)
    return root


def _copy_code(job: Job, target: Path) -> None:
    """Raises DlcError for the first file that cannot be copied, DiskError where the disk is full."""
    try:
        _copy(job, target)
    except shutil.Error as error:  # of a folder: a list of what failed, with each error as text
        source, _, why = error.args[0][0]
        if FULL.match(why):
            raise DiskError(f"{target}: {why}", "free space there, or --output on another disk") from None
        raise DlcError(
            f"{source}: not copied to {target}: {why}", "make it readable, or keep it out of the folder of code"
        ) from None


def _copy(job: Job, target: Path) -> None:
    for source in job.code:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=_ignored(source, job.folder), dirs_exist_ok=True)
        else:
            target.mkdir(exist_ok=True)
            shutil.copy2(source, target / source.name)


def _ignored(source: Path, results: Path) -> Callable[[str, list[str]], set[str]]:
    """What is not copied: the checkout's own folders, and the results of jobs where they are kept among the code.

    A repository below the top is code: pip installs from it. Pipes and sockets, as editors and agents leave them, are
    none.
    """
    kept = {results, results.parent} if results.parent.name == RESULTS else {results}
    kept |= {source.absolute() / name for name in LEFT_OUT}

    def ignored(folder: str, names: list[str]) -> set[str]:
        paths = {name: Path(folder, name) for name in names}
        left = {name for name, path in paths.items() if name == COMPILED or path.absolute() in kept}
        return left | {name for name, path in paths.items() if path.is_fifo() or path.is_socket()}

    return ignored


RESULTS = "dlc-jobs"  # in the current folder: where results are without --output
