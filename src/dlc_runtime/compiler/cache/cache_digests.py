"""Digests of a cache's files: what was cut or changed no job could load."""

from __future__ import annotations

import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# A line for each file, of which the last counts: digest, stamp, path.
NAME = "digests"
GONE = "-"
CHUNK = 1 << 20


def note_digests(folder: str) -> None:
    """Keep digests of what is new."""
    known = read_digests(folder)
    new = [(path, stamp) for path, stamp in stamped_files(folder) if known.get(path, ("", ""))[1] != stamp]
    append_lines(folder, [(file_digest(os.path.join(folder, path)), stamp, path) for path, stamp in new])


def delete_damaged(folder: str, alone: bool) -> list[str]:
    """Delete files that are not as a job left them, with what lies beside them and is made with them; return them.

    A file with the noted stamp was not written since, and is not read. `alone`: no other job uses the folder: code
    that is not noted is of one cut off.
    """
    stamps, noted = dict(stamped_files(folder)), read_digests(folder)
    lines = [(GONE, "", path) for path in noted if path not in stamps]
    damaged = [path for path in stamps if alone and path not in noted and is_code(path)]
    for path, (expected, stamp) in noted.items():
        if path in stamps and stamps[path] != stamp:
            found = file_digest(os.path.join(folder, path))
            lines.append((found, stamps[path], path))
            damaged += [path] if found != expected else []
    folders = {os.path.dirname(path) for path in damaged} - {""}
    for path in sorted(stamps):
        if path in damaged or os.path.dirname(path) in folders:
            os.unlink(os.path.join(folder, path))
            lines.append((GONE, "", path))
    append_lines(folder, lines)
    return sorted(damaged)


def is_code(path: str) -> bool:
    """Return whether its folder is one of inductor's code, with two letters."""
    return len(path.partition(os.sep)[0]) == 2


def stamped_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield path and stamp, which changes with each write and copy, of the files below a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            whole = os.path.join(parent, name)
            try:
                status = os.lstat(whole)
            except OSError:
                continue
            path = os.path.relpath(whole, folder)
            if path != NAME and not name.startswith(".") and not any(letter in path for letter in "\n\r"):
                yield path, f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def file_digest(path: str) -> str:
    """Return GONE for a file that cannot be read."""
    found = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while chunk := stream.read(CHUNK):
                found.update(chunk)
    except OSError:
        return GONE
    return found.hexdigest()


def read_digests(folder: str) -> dict[str, tuple[str, str]]:
    """Return digest and stamp of each noted file."""
    found: dict[str, tuple[str, str]] = {}
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8", errors="replace") as stream:
            lines = [line.rstrip("\n").split(" ", 2) for line in stream if line.endswith("\n")]
    except OSError:
        return {}
    for line in lines:
        if len(line) == 3 and len(line[0]) in (len(GONE), hashlib.sha256().digest_size * 2):
            found[line[2]] = line[0], line[1]
    return {path: entry for path, entry in found.items() if entry[0] != GONE}


def append_lines(folder: str, lines: list[tuple[str, str, str]]) -> None:
    if not lines:
        return
    try:
        with open(os.path.join(folder, NAME), "a", encoding="utf-8") as stream:
            # A full disk may have cut the line before.
            stream.write("\n")
            stream.write("".join(f"{found} {stamp or GONE} {path}\n" for found, stamp, path in lines))
    except OSError:
        return
