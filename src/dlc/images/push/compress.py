"""Compresses layers on all cores: equal layers become equal bytes, with any number of threads.

gzip by default, because every engine reads it; SageMaker's hosts and old engines may not read zstd.
"""

from __future__ import annotations

import errno
from pathlib import Path

from dlc.core.compression import COMPRESSIONS, Source, Through
from dlc.core.errors import DiskError

REMEDY = "free space, or name another folder in TMPDIR"
DRAFT = ".draft"


def compressed(layer: Source, folder: Path, kind: str) -> Path:
    """Compress a layer into a file of `folder` that has its SHA-256 in hex as its name. `kind` is of COMPRESSIONS.

    Raises DiskError when the disk is full.
    """
    draft = folder / DRAFT
    try:
        with draft.open("wb") as file:
            written = Through(file)
            COMPRESSIONS[kind](layer, written)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskError(f"{draft}: no space left on the disk", REMEDY) from None
        raise
    return draft.rename(folder / written.sha256.hexdigest())
