"""A job's code as one archive, small enough for a ConfigMap. Reads the files of the code, and nothing else."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from dlc.jobs.run.job_folder import COMPILED, LEFT_OUT, RESULTS

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
    """Return the archive, the same for the same files. Raises SourceTooLargeError, and OSError of a file."""
    packed = _Bounded()
    # Neither the time nor an owner of this machine is part of the code.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, name in _list_files(code):
            entry = archive.gettarinfo(str(path), name)
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return packed.getvalue()


def _list_files(code: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    """Yield each file with its name in the code directory: what `dlc run` copies, without results of jobs."""
    for source in code:
        if not source.is_dir():
            yield source, source.name
            continue
        for path in _walk(source, LEFT_OUT | {RESULTS}):
            yield path, path.relative_to(source).as_posix()


def _walk(folder: Path, left_out: set[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in left_out or path.name == COMPILED or path.is_fifo() or path.is_socket():
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path, set())
