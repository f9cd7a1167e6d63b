"""Files that appear whole or not at all: drafts, replacing, locks on files, and errors for a full disk."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import cast

from dlc.core.errors import DiskError, ProcessError, UsageError
from dlc.core.interrupts import held
from dlc.core.text import format_bytes

# From linux/fcntl.h and linux/fs.h.
AT_FDCWD, RENAME_EXCHANGE = -100, 2
ASK_AGAIN_SECONDS = 0.1
# For work of a moment: its disk may stand still, and the lock of a dead process is free.
SHORT_WORK_SECONDS = 180.0


@contextmanager
def draft_folder(place: Path, name: str = "drafts") -> Iterator[Path]:
    """Make a folder below `place`/`name`: removed after the block; if dlc is killed, the next call removes it.

    It is on the file system of `place`, so that what is finished is moved there in one step.
    """
    home = place / name
    home.mkdir(parents=True, exist_ok=True)
    with hold_lock(home):
        _remove_abandoned(home.iterdir())
    with _make_own_folder(home, "") as mine:
        yield mine


@contextmanager
def scratch_folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """Make a folder in `place`, or else in TMPDIR, whose name begins with `prefix`.

    It is removed after the block, or, if dlc is killed, by the next call.
    """
    home = place or Path(tempfile.gettempdir())
    _remove_abandoned(home.glob(f"{glob.escape(prefix)}*"))
    with _make_own_folder(home, prefix) as mine:
        yield mine


@contextmanager
def _make_own_folder(home: Path, prefix: str) -> Iterator[Path]:
    """Make a folder with a lock, which shows other processes that its owner is alive."""
    mine: Path | None = None
    descriptor = -1
    try:
        with held:
            while descriptor < 0:
                mine = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
                descriptor = _lock_folder(mine)
        yield cast("Path", mine)
    finally:
        with held:
            if mine:
                shutil.rmtree(mine, ignore_errors=True)
            if descriptor >= 0:
                os.close(descriptor)


def replace_folder(new: Path, old: Path) -> None:
    """Let `new` take the place of `old`, which may be missing.

    The swap is atomic: readers and crashes see one complete folder. A file system that cannot do that (NFS, the lower
    layers of a container) gets file after file. What was `old` may be left at `new`.
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
    _replace_each(new, old)


def _replace_each(new: Path, old: Path) -> None:
    """Replace file after file, in folders too, and remove what is only in `old`."""
    for path in old.iterdir():
        other = new / path.name
        if not other.exists() or other.is_dir() != path.is_dir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in sorted(new.iterdir()):
        if (old / path.name).is_dir():
            _replace_each(path, old / path.name)
        else:
            path.replace(old / path.name)


def replace_text(path: Path, content: str) -> None:
    """Write a file anew in one step, with its folder: a kill leaves the old file, and never half of the new one."""
    with draft_folder(path.parent, ".drafts") as draft:
        (draft / path.name).write_text(content)
        (draft / path.name).replace(path)


def write_output(path: Path, text: str) -> None:
    """Write a file that the user names, a new one whole or not at all: what is there may be a device or a pipe.

    Raises DiskError and UsageError as `report_disk_errors` does.
    """
    with report_disk_errors(path.parent, ""):
        if path.exists():
            path.write_text(text)
            return
        with scratch_folder(f".{path.name}-", path.parent) as draft:
            (draft / path.name).write_text(text)
            (draft / path.name).replace(path)


def replace_together(
    root: Path, texts: Mapping[str, str], folders: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> None:
    """Write files anew, and folders of files, by their paths from `root`: all of them or none.

    A full disk or Ctrl-C leaves what was there.
    """
    with draft_folder(root, ".drafts") as draft:
        files: list[tuple[Path, Path]] = []
        for path, text in texts.items():
            new = draft / "files" / path
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text)
            files.append((new, root / path))
        for path, parts in folders.items():
            new = draft / "folders" / path
            new.mkdir(parents=True)
            for name, text in parts.items():
                (new / name).write_text(text)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        with held:
            for new, old in files:
                new.replace(old)
            for path in folders:
                replace_folder(draft / "folders" / path, root / path)


def write_new_files(folder: Path, texts: Mapping[str, str | bytes]) -> None:
    """Write files that are not there yet, in this order, all of them or none. Folders are made if they are missing.

    Raises FileExistsError for a file that is there.
    """
    made: list[Path] = []
    try:
        for name, text in texts.items():
            path = folder / name
            for parent in reversed([each for each in path.parents if not each.exists()]):
                parent.mkdir()
                made.append(parent)
            with path.open("xb") as file:
                made.append(path)
                file.write(text.encode() if isinstance(text, str) else text)
    except BaseException:
        with held:
            for path in reversed(made):
                # Somebody else may have put a file into a folder meanwhile.
                with suppress(OSError):
                    path.rmdir() if path.is_dir() else path.unlink()
        raise


def require_room(folder: Path, needed: int, purpose: str, variable: str) -> None:
    """Raise DiskError if a disk has less than the bytes that are needed; `variable` names another folder for dlc."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise DiskError(
            f"{folder}: expected {format_bytes(needed)} of free space {purpose}, found {format_bytes(free)}",
            f"free space there, or name a folder on another disk in {variable}",
        )


@contextmanager
def report_disk_errors(folder: Path, variable: str = " in DLC_CACHE_DIR") -> Iterator[None]:
    """Report an error of the file system in the block as one error that names the folder.

    `variable` says where the user names another folder; it is empty if that is the command line.

    Raises DiskError for a full disk and UsageError for a folder that cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        # A reader of our output went away: that is no folder's fault.
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskError(
                f"{folder}: the disk is full ({error.strerror})",
                f"free space there, or name a folder on another disk{variable}",
            ) from None
        raise UsageError(
            f"{folder}: expected a folder that dlc can write, found: {error}",
            f"make it writable, or name another folder{variable}",
        ) from None


def _remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove the folders of processes that were killed."""
    for left in folders:
        if (descriptor := _lock_folder(left)) >= 0:
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


def _lock_folder(folder: Path) -> int:
    """Return the folder's descriptor, with its lock; -1 if that cannot be had.

    Another process may hold the lock, or have removed the folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    if try_lock(descriptor) and folder.exists():
        return descriptor
    os.close(descriptor)
    return -1


@contextmanager
def hold_lock(path: Path, seconds: float = SHORT_WORK_SECONDS) -> Iterator[None]:
    """Hold the lock of `path` in the block: a folder, or a file, which is created if it is missing. Others wait.

    Raises ProcessError when another process still holds it after `seconds`.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not try_lock(descriptor):
            print(f"waiting for another dlc: {path}", file=sys.stderr, flush=True)
            _wait_for_lock(descriptor, path, seconds)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file if nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_lock(descriptor: int, path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            raise ProcessError(f"{path}: another dlc has held this lock for {seconds:.0f} s", "wait for it, or end it")
        time.sleep(ASK_AGAIN_SECONDS)
