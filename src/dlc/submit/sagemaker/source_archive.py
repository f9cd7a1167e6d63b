"""A job's code as sourcedir.tar.gz, which the launcher unpacks: the same bytes for the same files."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlc.core.errors import DlcError
from dlc.jobs.run.job_folder import COMPILED, LEFT_OUT, RESULTS

# Level 9 of zlib takes twice the time for one percent.
LEVEL = 6
UNREADABLE = "make it readable, or keep it out of the code"


def write_archive(code: Sequence[Path], target: Path) -> None:
    """Write the archive: names in their order, no owners, no times. Raises DlcError for a file that cannot be read."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in list_files(code):
            _add_file(archive, name, path)


def list_files(code: Sequence[Path]) -> list[tuple[str, Path]]:
    """Return every file of the code with its name in the archive, in the order of the names.

    Left out is what `dlc run` leaves out: compiled files, a folder's own .git and .venv, results of jobs, pipes. A link
    that leads within the code stays one; of another link, what it leads to is packed, as the SDK does.
    """
    found: list[tuple[str, Path]] = []
    for path in code:
        found += _walk_folder(path, path.resolve(), "", ()) if path.is_dir() else [(path.name, path)]
    return sorted(found)


def _walk_folder(folder: Path, top: Path, prefix: str, above: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    here = folder.resolve()
    if here in above:
        raise DlcError(f"{folder}: not packed: it leads to a folder above itself", "remove the link")
    left_out = {COMPILED, *(() if prefix else (*LEFT_OUT, RESULTS))}
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise DlcError(f"{folder}: not packed: {error.strerror}", UNREADABLE) from None
    for path in entries:
        name = f"{prefix}{path.name}"
        if path.name in left_out:
            continue
        if is_inner_link(path, top) or path.is_file() or not path.exists():
            yield name, path
        elif path.is_dir():
            yield from _walk_folder(path, top, f"{name}/", (*above, here))


def is_inner_link(path: Path, top: Path) -> bool:
    """Tell whether a path is a link, in words that stay true elsewhere, to something below `top`."""
    return path.is_symlink() and not path.readlink().is_absolute() and path.resolve().is_relative_to(top)


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> None:
    entry = tarfile.TarInfo(name)
    # As many folders up as the name has steps.
    top = path.parents[name.count("/")].resolve()
    if is_inner_link(path, top):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(entry)
        return
    try:
        data = path.read_bytes()
        entry.size, entry.mode = len(data), 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
    except OSError as error:
        raise DlcError(f"{path}: not packed: {error.strerror}", UNREADABLE) from None
    archive.addfile(entry, io.BytesIO(data))
