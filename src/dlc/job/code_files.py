"""The files of a job's code: the same wherever the job goes, copied for the hosts of this machine, else packed.

Left out are compiled files, a folder's own .git and .venv, results of jobs, pipes and sockets, as editors and agents
leave them. A repository below the top is code: pip installs from it. A link that leads within the code stays a link; of
another link, what it leads to is taken; a link that leads nowhere is left out.
"""

from __future__ import annotations

import errno
import gzip
import io
import shutil
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from dlc.core.errors import DiskError, DlcError

# The folder of results in the current folder, without --output.
RESULTS = "dlc-jobs"
# Names at the top of a folder of code: large, or results, and no part of it.
LEFT_OUT = {".git", ".venv", RESULTS}
# Left out anywhere.
COMPILED = "__pycache__"
# Level 9 of zlib takes twice the time for one percent.
LEVEL = 6
UNREADABLE = "make it readable, or keep it out of the folder of code"


def list_files(code: Sequence[Path], results: Path | None = None) -> list[tuple[str, Path]]:
    """Return every file, link and empty folder with its name in the code directory, in the order of the names.

    `results` of a job, which may be kept among the code, stay out.
    """
    found: list[tuple[str, Path]] = []
    try:
        for path in code:
            found += _walk(path, path.resolve(), "", (), results) if path.is_dir() else [(path.name, path)]
    except OSError as error:
        raise DlcError(f"{error.filename}: {error.strerror}", UNREADABLE) from None
    return sorted(found)


def _walk(
    folder: Path, top: Path, prefix: str, above: tuple[Path, ...], results: Path | None
) -> Iterator[tuple[str, Path]]:
    here = folder.resolve()
    if here in above:
        raise DlcError(f"{folder}: it leads to a folder above itself", "remove the link")
    left_out = {COMPILED} if prefix else {COMPILED, *LEFT_OUT}
    kept = [path for path in sorted(folder.iterdir()) if path.name not in left_out and path.absolute() != results]
    for path in kept:
        name = f"{prefix}{path.name}"
        if path.is_file() or (path.exists() and _is_inner_link(path, top)):
            yield name, path
        elif path.is_dir():
            yield from _walk(path, top, f"{name}/", (*above, here), results)
    if prefix and not kept:
        yield prefix.rstrip("/"), folder


def _is_inner_link(path: Path, top: Path) -> bool:
    """Tell whether a path is a link, in words that stay true elsewhere, to something below `top`."""
    return path.is_symlink() and not path.readlink().is_absolute() and path.resolve().is_relative_to(top)


def _find_link(name: str, path: Path) -> Path | None:
    """Return where a link within the code leads; None for what is no such link."""
    # As many folders up as the name has steps.
    return path.readlink() if _is_inner_link(path, path.parents[name.count("/")].resolve()) else None


def copy_code(code: Sequence[Path], target: Path, results: Path) -> None:
    """Copy the code to a host's folder. Raises DlcError for the first file that cannot be copied, DiskError if the
    disk is full.
    """
    target.mkdir(exist_ok=True)
    for name, path in list_files(code, results):
        try:
            _copy(name, path, target / name)
        except OSError as error:
            why = f"{path}: not copied to {target}: {error.strerror or error}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskError(why, "free space there, or --output on another disk") from None
            raise DlcError(why, UNREADABLE) from None


def _copy(name: str, path: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if link := _find_link(name, path):
        place.symlink_to(link)
    elif path.is_dir():
        place.mkdir()
    else:
        shutil.copy2(path, place)


def write_archive(code: Sequence[Path], target: IO[bytes]) -> None:
    """Write the code as a .tar.gz, the same bytes for the same files: names in their order, no owners, no times.

    Raises DlcError for a file that cannot be read.
    """
    with (
        gzip.GzipFile("", "wb", LEVEL, target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in list_files(code):
            try:
                archive.addfile(*_make_entry(name, path))
            except OSError as error:
                raise DlcError(f"{path}: not packed: {error.strerror or error}", UNREADABLE) from None


def _make_entry(name: str, path: Path) -> tuple[tarfile.TarInfo, IO[bytes] | None]:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755
    if link := _find_link(name, path):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(link), 0o777
        return entry, None
    if path.is_dir():
        entry.type = tarfile.DIRTYPE
        return entry, None
    data = path.read_bytes()
    entry.size, entry.mode = len(data), 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
    return entry, io.BytesIO(data)
