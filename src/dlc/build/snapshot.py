"""Writes files to a folder of the cache for a build, so that what is built is what was hashed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path, PurePath

from dlc.core.checkout import Tree
from dlc.core.digests import say_damaged
from dlc.core.drafts import draft_folder
from dlc.core.file_lock import exclusive

TIME = 315532800  # 1980; of folders, and the latest of a file: nothing in an image is later
FOLDER, FILE, PROGRAM = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFREG | 0o755


def snapshot(files: Tree, cache: Path) -> Path:
    """A folder below `cache` with exactly these files (by their path from it), named by their content.

    Edits of the checkout while a build runs do not reach the build. Two builds may want the same folder at once. One
    that is there is compared with the files, modes included, and made anew where it differs.
    """
    digest = hashlib.sha256()
    for path, file in sorted(files.items()):
        digest.update(os.fsencode(path) + f"\0{file.executable}\0{hashlib.sha256(file.data).hexdigest()}\n".encode())
    folder = cache / "snapshots" / digest.hexdigest()
    wanted = _wanted(files)
    if _found(folder) != wanted:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.parent), draft_folder(cache) as drafts:
            if (found := _found(folder)) != wanted:  # else another build was faster
                if found:
                    say_damaged(folder)
                    folder.rename(drafts / "damaged")
                _write(files, drafts / "files")
                (drafts / "files").rename(folder)
    return folder


def _wanted(files: Tree) -> dict[str, tuple[int, bytes]]:
    """Mode and content of all that is to lie in the folder, by the path from it."""
    found = {".": (FOLDER, b"")}
    for path, file in files.items():
        found |= {str(folder): (FOLDER, b"") for folder in PurePath(path).parents}
        found[path] = (PROGRAM if file.executable else FILE, file.data)
    return found


def _found(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The same of what lies there; nothing where there is no such folder."""
    found = {}
    for path in (folder, *folder.rglob("*")) if folder.is_dir() else ():
        mode = path.lstat().st_mode
        found[str(path.relative_to(folder))] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def _write(files: Tree, folder: Path) -> None:
    folder.mkdir()
    for path, file in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(0o755 if file.executable else 0o644)
        os.utime(target, (time_of(file.data),) * 2)
    for entry in (folder, *folder.rglob("*")):
        if entry.is_dir():
            entry.chmod(0o755)  # whatever the umask is: modes reach the image
            os.utime(entry, (TIME, TIME))


def time_of(content: bytes) -> int:
    """Seconds that the content alone decides: BuildKit takes a file of the same size and time for unchanged."""
    return TIME - int(hashlib.sha256(content).hexdigest()[:6], 16)
