"""Where files are written until they are complete, how they take their place, and errors for a full disk."""

from __future__ import annotations

import ctypes
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
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h


@contextmanager
def draft_folder(place: Path, name: str = "drafts") -> Iterator[Path]:
    """A new folder below `place`/`name`: removed after the block; if dlc is killed, the next call removes it.

    It is on the file system of `place`, so that what is finished is moved there in one step.
    """
    home = place / name
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


def replace_folder(new: Path, old: Path) -> None:
    """Let `new`, a folder of files, take the place of `old`, which may be missing.

    In one step: whoever looks, and whatever is killed, there is one of them, and whole. A file system that cannot do
    that (NFS, the lower layers of a container) gets file after file. What was `old` may be left at `new`.
    """
    try:
        new.rename(old)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(new), AT_FDCWD, os.fsencode(old), RENAME_EXCHANGE) == 0:
        return
    names = {path.name for path in new.iterdir()}
    for name in sorted(names):
        (new / name).replace(old / name)
    for path in old.iterdir():
        if path.name not in names:
            path.unlink()


def replace_text(path: Path, content: str) -> None:
    """Write a file anew in one step: a kill leaves the old one, and never half of the new one."""
    with draft_folder(path.parent, ".drafts") as draft:
        (draft / path.name).write_text(content)
        (draft / path.name).replace(path)


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
