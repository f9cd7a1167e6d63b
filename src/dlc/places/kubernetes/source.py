"""A job's code as one archive, small enough for a ConfigMap. Reads the files of the code, and nothing else."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

from dlc.job.code_files import write_archive

# etcd takes 1.5 MiB for an object, in which these bytes are written as base64.
MOST_BYTES = 900 << 10
NAME = "source.tar.gz"


class SourceTooLargeError(Exception):
    """The archive has more than MOST_BYTES."""


class _Bounded(io.BytesIO):
    """Take bytes until there are too many: a folder may hold a data set."""

    def write(self, data: object) -> int:
        written = super().write(data)  # type: ignore[arg-type]
        if self.tell() > MOST_BYTES:
            raise SourceTooLargeError
        return written


@lru_cache(maxsize=1)
def pack_code(code: tuple[Path, ...]) -> bytes:
    """Return the archive, the same for the same files. Raises SourceTooLargeError, and DlcError for a file."""
    packed = _Bounded()
    write_archive(code, packed)
    return packed.getvalue()
