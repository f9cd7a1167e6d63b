"""Compresses layers with gzip on all cores: equal layers become equal bytes, with any number of threads.

gzip, because every engine reads it; SageMaker's hosts and old engines may not read zstd.
"""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import BinaryIO

from dlc.core.errors import DiskError
from dlc.core.gzip import compress

REMEDY = "free space, or name another folder in TMPDIR"


def gzip(layer: Path, folder: Path) -> Path:
    """Compress a layer into `folder`, to a file that has its SHA-256 in hex as its name, and remove the layer.

    Raises DiskError when the disk is full.
    """
    draft = folder / f".{layer.name}.gz"
    try:
        digest = _write(layer, draft)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskError(f"{draft}: no space left on the disk", REMEDY) from None
        raise
    layer.unlink()
    return draft.rename(folder / digest)


def _write(layer: Path, target: Path) -> str:
    """SHA-256 of what was written, in hex."""
    with target.open("wb") as file, layer.open("rb") as content:
        hashing = _Hashing(file)
        compress(content, hashing)
    return hashing.sha256.hexdigest()


class _Hashing:
    """A file that is hashed as it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
