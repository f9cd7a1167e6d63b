"""Where files are written until they are complete, how they take their place, and errors for a full disk."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from dlc.core.errors import DiskError, UsageError
from dlc.core.file_lock import exclusive, try_lock
from dlc.core.interrupts import held

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h


@contextmanager
def draft_folder(place: Path, name: str = "drafts") -> Iterator[Path]:
    """A new folder below `place`/`name`: removed after the block; if dlc is killed, the next call removes it.

    It is on the file system of `place`, so that what is finished is moved there in one step.
    """
    home = place / name
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(home):
        _sweep(home.iterdir())
    with _own_folder(home, "") as mine:
        yield mine


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new folder in TMPDIR, whose name begins so: removed after the block; of a killed dlc by the next call."""
    home = Path(tempfile.gettempdir())
    _sweep(home.glob(f"{prefix}*"))
    with _own_folder(home, prefix) as mine:
        yield mine


@contextmanager
def _own_folder(home: Path, prefix: str) -> Iterator[Path]:
    """A new folder with a lock, which shows other processes that its owner is alive."""
    mine: Path | None = None
    descriptor = -1
    try:
        with held:
            while descriptor < 0:
                mine = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
                descriptor = _locked(mine)
        yield cast("Path", mine)
    finally:
        with held:
            if mine:
                shutil.rmtree(mine, ignore_errors=True)
            if descriptor >= 0:
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


def _sweep(folders: Iterable[Path]) -> None:
    """Remove those of processes that were killed."""
    for left in folders:
        if (descriptor := _locked(left)) >= 0:
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


def _locked(folder: Path) -> int:
    """The folder's descriptor, with its lock; -1 where another process has it, has removed it, or lets nobody in."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    if try_lock(descriptor) and folder.exists():
        return descriptor
    os.close(descriptor)
    return -1
