"""The folder of compiled code and decisions that outlives a job: DLC_COMPILE_CACHE, one for each image and machine.

A cache that cannot be used is a warning: the job compiles into a folder of its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile

from dlc_runtime.compiler.cache import cache_digests
from dlc_runtime.compiler.cache.artifact import ARTIFACT, ArtifactError, take
from dlc_runtime.compiler.cache.machine import key_of
from dlc_runtime.compiler.hooks import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

FOLDER, GIGABYTES = "DLC_COMPILE_CACHE", "DLC_COMPILE_CACHE_GB"
INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
# Set by a parent process: its children use the same folder.
CHOSEN = "DLC_COMPILE_CACHE_CHOSEN"
DEFAULT_GIGABYTES = 10.0
PROBE = 1 << 20  # bytes to write
GIB = 1 << 30


def use_cache(environ: MutableMapping[str, str]) -> dict[str, Any]:
    """Point inductor at the cache, for this process and its children; return the report's facts."""
    asked, reference = environ.get(FOLDER, ""), environ.get(ARTIFACT, "")
    if not (asked or reference):
        return {}
    key = key_of(environ)
    warnings: list[str] = []
    folder = environ.get(CHOSEN, "")
    if not folder:
        asked = asked or tempfile.mkdtemp(prefix="dlc-compiled-")
        folder = choose_folder(asked, key, size_limit(environ, warnings), warnings)
        if folder:
            remove_damaged(folder, warnings)
        if folder and reference:
            take_artifact(reference, folder, key, warnings)
    for text in warnings:
        log(text)
    if folder:
        environ[INDUCTOR] = environ[CHOSEN] = folder
        # Off in torch 2.3 and 2.4.
        environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
        hold_lock(folder)
        atexit.register(cache_digests.note_digests, folder)
    return {"asked": asked, "key": key, "folder": folder, "warnings": warnings}


def choose_folder(asked: str, key: str, most: float, warnings: list[str]) -> str:
    """Return the folder to compile into: the cache's, or one of this job with the cache's content."""
    folder = os.path.join(asked, key)
    foreign = [name for name in subfolders(asked) if name != key]
    if foreign and key not in subfolders(asked):
        warnings.append(
            f"the cache {asked} holds code of {len(foreign)} other images or machines and none for this one ({key}): "
            "this job compiles anew"
        )
    try:
        check_writable(folder)
    except OSError as fault:
        return make_fallback_folder(folder, most, str(fault), warnings)
    prune(asked, int(most * GIB))
    return folder


def remove_damaged(folder: str, warnings: list[str]) -> None:
    """Delete what is not as a job left it: it is compiled again."""
    alone = lock_alone(folder)
    try:
        damaged = cache_digests.delete_damaged(folder, alone is not None)
    except OSError as fault:
        warnings.append(f"the cache {folder} holds damaged files that cannot be deleted: {fault}")
        return
    finally:
        if alone is not None:
            os.close(alone)
    if damaged:
        warnings.append(
            f"the cache {folder} held {len(damaged)} files that are not as a job left them, such as {damaged[0]}: "
            f"what they hold is compiled again"
        )


def take_artifact(reference: str, folder: str, key: str, warnings: list[str]) -> None:
    """Add what an artefact holds; what is foreign, changed or cut is a warning, and no byte of it is used."""
    try:
        count = take(reference, folder, key)
    except ArtifactError as fault:
        warnings.append(f"the compiled code of {ARTIFACT} is not used, this job compiles anew: {fault}")
        return
    log(f"{count} files of compiled code are those of {reference}")
    cache_digests.note_digests(folder)


def check_writable(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    probe = os.path.join(folder, f".probe-{os.getpid()}")
    try:
        with open(probe, "wb") as stream:
            stream.write(b"\0" * PROBE)
    finally:
        if os.path.lexists(probe):
            os.unlink(probe)


def make_fallback_folder(folder: str, most: float, fault: str, warnings: list[str]) -> str:
    """Make a folder of this job, with the cache's content if that is readable and not too large."""
    try:
        own = tempfile.mkdtemp(prefix="dlc-compiled-")
    except OSError:
        warnings.append(f"the cache cannot be used: {fault}")
        return ""
    copied = ""
    if os.path.isdir(folder):
        try:
            if folder_size(folder) <= min(most * GIB, shutil.disk_usage(own).free / 2):
                shutil.copytree(folder, own, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
                copied = ", with a copy of what the cache holds"
        except (OSError, shutil.Error) as unread:
            warnings.append(f"the cache could not be read in full: {unread}")
    warnings.append(f"the cache cannot be written: {fault}. This job compiles into {own}{copied}")
    return own


def size_limit(environ: MutableMapping[str, str], warnings: list[str]) -> float:
    text = environ.get(GIGABYTES, "")
    try:
        value = float(text or DEFAULT_GIGABYTES)
        if value > 0:
            return value
    except ValueError:
        pass
    warnings.append(f"{GIGABYTES}={text}: expected a number above 0; {DEFAULT_GIGABYTES:g} is used")
    return DEFAULT_GIGABYTES


def subfolders(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
    except OSError:
        return []


# Shared by the processes that use a subfolder; who deletes there has it alone.
LOCK = ".in-use"
_held: list[int] = []  # until the process ends


def hold_lock(folder: str) -> None:
    """Lock the folder against deletion until the process ends. Without locks in the file system nobody deletes."""
    try:
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _held.append(lock)
        os.utime(lock)
    except OSError:
        # Somebody deletes: what goes is compiled again.
        os.close(lock)


def prune(cache: str, most: int) -> int:
    """Delete what is longest unused until `most` bytes are left; return how many went."""
    files = sorted(all_files(cache), key=lambda file: file[1])
    excess = sum(size for _, _, size in files) - most
    gone = 0
    locks: dict[str, int | None] = {}
    for path, _, size in files:
        if gone >= excess:
            break
        folder = os.path.join(cache, os.path.relpath(path, cache).split(os.sep)[0])
        if folder not in locks:
            locks[folder] = lock_alone(folder)
        if locks[folder] is not None and delete_file(path):
            gone += size
    for lock in locks.values():
        if lock is not None:
            os.close(lock)
    return gone


def lock_alone(folder: str) -> int | None:
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
    """Return path, last use and size of each file."""
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


def folder_size(folder: str) -> int:
    return sum(size for _, _, size in all_files(folder))


def delete_file(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
