"""The folder in TMPDIR in which a push exports and compresses an image; it is removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dlc.core.errors import DiskError
from dlc.core.file_lock import try_lock

PREFIX = "dlc-push-"
LOCK = "lock"


@contextmanager
def workspace(size: int) -> Iterator[Path]:
    """An empty folder for an image of `size` bytes. Raises DiskError if the disk has too little room."""
    root = Path(tempfile.gettempdir())
    remove_left_over(root)
    # The saved image and its compressed layers lie there.
    needed, free = size + size // 2, shutil.disk_usage(root).free
    if free < needed:
        raise DiskError(
            f"{root}: expected {needed / 1e9:.1f} GB of free space for the layers, found {free / 1e9:.1f} GB",
            "free space there, or name another folder in TMPDIR",
        )
    made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with made as name, Path(name, LOCK).open("w") as lock:
        try_lock(lock.fileno())  # tells other pushes that this one is alive
        yield Path(name)


def remove_left_over(root: Path) -> None:
    """Remove the folders of pushes that were killed: nobody holds their locks."""
    for folder in root.glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / LOCK).open() as lock:
            if try_lock(lock.fileno()):
                shutil.rmtree(folder, ignore_errors=True)
