"""Folders in which files of the cache are written until they are complete; errors for a full disk."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlc.core.errors import DiskError, UsageError
from dlc.core.file_lock import exclusive, try_lock

SWEEP_SECONDS = 60.0


@contextmanager
def draft_folder(cache: Path) -> Iterator[Path]:
    """A new folder in the cache, removed after the block. If dlc is killed, the next call removes it.

    It is on the file system of the cache, so that a finished file is moved to its place in one step.
    """
    home = cache / "drafts"
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(home, SWEEP_SECONDS):
        _sweep(home)
        mine = Path(tempfile.mkdtemp(dir=home))
        descriptor = os.open(mine, os.O_RDONLY)
        try_lock(descriptor)  # shows other processes that this one is alive
    try:
        yield mine
    finally:
        shutil.rmtree(mine, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Report an error of the file system in the block as one error that names the folder.

    Raises DiskError for a full disk and UsageError for a folder that cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # a reader of our output went away: no folder's fault
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskError(
                f"{folder}: the disk is full ({error.strerror})",
                "free space there, or name a folder on another disk in DLC_CACHE_DIR",
            ) from None
        raise UsageError(
            f"{folder}: expected a folder that dlc can write, found: {error}",
            "make it writable, or name another folder in DLC_CACHE_DIR",
        ) from None


def _sweep(home: Path) -> None:
    """Remove the folders of processes that were killed."""
    for left in home.iterdir():
        try:
            descriptor = os.open(left, os.O_RDONLY)
        except FileNotFoundError:
            continue  # its owner removed it just now
        try:
            if try_lock(descriptor):
                shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(descriptor)
