"""Keeps a cache below its size: the files that were longest unused go first, and none of a job that runs."""

from __future__ import annotations

import fcntl
import os

LOCK = ".in-use"  # shared by the processes that use a subfolder; who deletes there has it alone
_held: list[int] = []  # until the process ends


def hold(folder: str) -> None:
    """A file system without locks only means that nobody deletes."""
    try:
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _held.append(lock)
        os.utime(lock)
    except OSError:  # somebody deletes: what goes is compiled again
        os.close(lock)


def prune(cache: str, most: int) -> int:
    """Deletes what is longest unused until `most` bytes are left; returns how many went."""
    files = sorted(all_files(cache), key=lambda file: file[1])
    excess = sum(size for _, _, size in files) - most
    gone = 0
    locks: dict[str, int | None] = {}
    for path, _, size in files:
        if gone >= excess:
            break
        folder = os.path.join(cache, os.path.relpath(path, cache).split(os.sep)[0])
        if folder not in locks:
            locks[folder] = take_alone(folder)
        if locks[folder] is not None and unlink(path):
            gone += size
    for lock in locks.values():
        if lock is not None:
            os.close(lock)
    return gone


def take_alone(folder: str) -> int | None:
    try:
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def all_files(folder: str) -> list[tuple[str, float, int]]:
    """Path, last use and size."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))
            except OSError:
                continue
            if name != LOCK:
                found.append((os.path.join(parent, name), max(status.st_atime, status.st_mtime), status.st_size))
    return found


def size(folder: str) -> int:
    return sum(size for _, _, size in all_files(folder))


def unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
