"""The folder in TMPDIR in which a push exports and compresses an image; it is removed afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlc.core.atomic_files import scratch_folder
from dlc.core.errors import DiskError

PREFIX = "dlc-push-"


@contextmanager
def workspace(size: int) -> Iterator[Path]:
    """An empty folder for an image of `size` bytes. Raises DiskError if the disk has too little room."""
    with scratch_folder(PREFIX) as folder:
        # The saved image and its compressed layers lie there.
        needed, free = size + size // 2, shutil.disk_usage(folder).free
        if free < needed:
            raise DiskError(
                f"{folder.parent}: expected {needed / 1e9:.1f} GB of free space for the layers, "
                f"found {free / 1e9:.1f} GB",
                "free space there, or name another folder in TMPDIR",
            )
        yield folder
