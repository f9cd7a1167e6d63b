"""What jobs left in a folder of results: the folders of those that have ended, with their sizes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlc.places.local.known_jobs import LOG


@dataclass(frozen=True)
class Remains:
    """A job's folder, and the bytes that its removal frees."""

    folder: Path
    bytes: int


def find_remains(results: Path, running: Collection[str]) -> list[Remains]:
    """Return the folders of jobs below a folder of results, but those of jobs that run. Other folders are left out."""
    if not results.is_dir():
        return []
    folders = [path for path in sorted(results.iterdir()) if path.is_dir() and not path.is_symlink()]
    return [Remains(path, _count_bytes(path)) for path in folders if _is_of_a_job(path) and str(path) not in running]


def _is_of_a_job(folder: Path) -> bool:
    """Tell whether a folder has what every job makes. That of `dlc tune-batch` has not: its trials come and go."""
    return (folder / LOG).is_file() or any(folder.glob("hosts/*/input/config/resourceconfig.json"))


def _count_bytes(folder: Path) -> int:
    return sum(_size_on_disk(Path(place, name)) for place, _, names in os.walk(folder) for name in names)


def _size_on_disk(path: Path) -> int:
    with suppress(OSError):
        # Of several names of one file, removing one frees nothing until the last one goes: each counts for its part.
        found = path.lstat()
        return found.st_blocks * 512 // found.st_nlink
    return 0


def remove_remains(found: Collection[Remains], results: Path) -> None:
    """Remove them, and the folder of results if nothing else is in it."""
    for each in found:
        shutil.rmtree(each.folder)
    with suppress(OSError):
        results.rmdir()
