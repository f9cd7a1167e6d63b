"""Compresses layers with gzip on all cores: equal layers become equal bytes, with any number of threads.

gzip, because every engine reads it; SageMaker's hosts and old engines may not read zstd. The bytes, and so the digest
of what is pushed, depend only on the version of the library (isal), the level and the block size: the header has
neither a time nor a name.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from isal import igzip_threaded

from dlc.core.errors import DiskError

LEVEL = 2  # 0 to 3; on layers of PyTorch 3 takes 50% longer than 2 and saves 2%
BLOCK = 1 << 20  # bytes that a thread compresses at a time; another value, another digest
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
    threads = len(os.sched_getaffinity(0))
    with target.open("wb") as file, layer.open("rb") as content:
        hashing = _Hashing(file)
        with igzip_threaded.open(  # type: ignore[no-untyped-call]
            hashing, "wb", LEVEL, threads=threads, block_size=BLOCK
        ) as compressor:
            while block := content.read(BLOCK):
                compressor.write(block)
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
