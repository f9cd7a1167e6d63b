"""Unpacks a source archive: nothing lands outside its folder, and only files, folders and links land in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Container, Iterator

from launch.base.errors import CANNOT_CREATE, DATA, LaunchError, shown

# Of the free room that an archive may take
MOST = 0.9

# What tarfile lets through of broken data, beside its own error.
_BROKEN: tuple[type[Exception], ...] = (tarfile.TarError, EOFError, ValueError, zlib.error)
# Not every Python is built with it; without it tarfile says so
with contextlib.suppress(ImportError):
    from lzma import LZMAError

    _BROKEN = (*_BROKEN, LZMAError)


def unpack_archive(archive: str, folder: str) -> tuple[str, ...]:
    """Unpack a tar file of any compression; the warnings: a line per member that was renamed or left out.

    Names are made relative (`/a`, `../a` become `a`); devices, pipes and links that lead out of the folder are left
    out, as SageMaker's toolkit does. Raises LaunchError: no tar file, broken, no room.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            own = os.path.realpath(folder)
            there = set(_find_links(own))
            members = _within_room(tar, archive, own)
            warnings = tuple(warning for member in members for warning in _unpack_member(tar, member, own))
            _read_to_the_end(tar)
            return (*warnings, *_cut_links(own, there))
    except _BROKEN as error:
        raise LaunchError(DATA, "not unpacked", where=archive, expected="a tar file", found=str(error)) from error
    except OSError as error:
        # Gzip and lzma raise OSError without an errno for broken data
        exit_code, found = (CANNOT_CREATE, os.strerror(error.errno)) if error.errno else (DATA, str(error))
        raise LaunchError(
            exit_code, "not unpacked", where=archive, expected=f"a tar file, and room in {folder}", found=found
        ) from error


def _within_room(tar: tarfile.TarFile, archive: str, folder: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members; LaunchError before they take more than MOST of the free room: a full disk ends more.

    Their headers say how large they are. Some file systems say that 0 is free: there the first write that fails tells.
    """
    free, size = shutil.disk_usage(folder).free or float("inf"), 0
    for member in tar:
        size += max(0, member.size)
        if size > MOST * free:
            raise LaunchError(
                CANNOT_CREATE, "not unpacked", where=archive,
                expected=f"at most {MOST:.0%} of the {free / 1e6:,.0f} MB that are free in {folder}",
                found=f"{size / 1e6:,.0f} MB up to {shown(member.name)}",
            )  # fmt: skip
        yield member


def _read_to_the_end(tar: tarfile.TarFile) -> None:
    """Read on to gzip's checksum behind all members, which tarfile does not: else broken code would be run."""
    while tar.fileobj and tar.fileobj.read(1 << 20):
        pass


def _cut_links(folder: str, kept: Container[str]) -> Iterator[str]:
    """Remove the links that lead out of the folder after all, but for the `kept` ones, which the archive did not bring.

    A link is looked at when it is unpacked, but a member after it may change where it leads: another link on its way,
    made later or named twice, and another name of it in another folder.
    """
    while lost := [path for path in _find_links(folder) if path not in kept and not _is_inside(path, folder)]:
        for path in lost:
            os.unlink(path)
            yield f"{path[len(folder) + 1 :]!r} left out: it links to what is outside the code directory"


def _find_links(folder: str) -> list[str]:
    found = [os.path.join(top, name) for top, folders, files in os.walk(folder) for name in (*folders, *files)]
    return [path for path in found if os.path.islink(path)]


def safe_name(name: str) -> str:
    """Return a member's name without anything that could lead out of the folder; "" if nothing is left."""
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> Iterator[str]:
    name = safe_name(member.name)
    if not name:
        return
    if ".." in member.name.split("/") or member.name.startswith("/"):
        yield f"{member.name!r} would have left the code directory; unpacked as {name!r}"
    target = f"{folder}/{name}"
    if not _is_inside(target, folder):
        yield f"{member.name!r} left out: a link leads it out of the code directory"
    elif member.isdir():
        os.makedirs(target, exist_ok=True)
    elif member.isfile():
        _make_way(target)
        _write_file(tar, member, target)
    elif member.islnk():
        yield from _hard_link(member, target, folder)
    elif member.issym():
        _make_way(target)
        yield from _symbolic_link(member, target, folder)
    else:
        yield f"{member.name!r} left out: neither a file nor a folder nor a link"


def _is_inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{folder}/")


def _make_way(target: str) -> None:
    """Remove an earlier member of this name: the last one counts, and a link's target is not written to."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
        os.unlink(target)


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None, "only for members that are no files"  # noqa: S101
    with open(target, "wb") as file:
        shutil.copyfileobj(content, file)
    # No set-uid bit, nothing for strangers to write, and always readable for its owner.
    os.chmod(target, member.mode & 0o755 | 0o600)


def _hard_link(member: tarfile.TarInfo, target: str, folder: str) -> Iterator[str]:
    """Make another name of an earlier file of the archive; of itself too, as tar writes a file that was named twice."""
    source = f"{folder}/{safe_name(member.linkname)}"
    if not _is_inside(source, folder):
        yield _why_left_out(member, "is outside the code directory")
    elif _are_the_same(source, target):
        return
    elif not os.path.isfile(source):
        yield _why_left_out(member, "is no file before it in the archive")
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _make_way(target)
        os.link(source, target)


def _are_the_same(path: str, other: str) -> bool:
    """Return whether both names are of one file, or of one symbolic link: a link's target does not count."""
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


def _symbolic_link(member: tarfile.TarInfo, target: str, folder: str) -> Iterator[str]:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if _is_inside(os.path.join(os.path.dirname(target), member.linkname), folder):
        os.symlink(member.linkname, target)
    else:
        yield _why_left_out(member, "is outside the code directory")


def _why_left_out(member: tarfile.TarInfo, why: str) -> str:
    return f"{member.name!r} left out: it links to {member.linkname!r}, which {why}"
