"""Writes files of the tree to a folder for the build, so that what is built is what was hashed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dlc.core.checkout import Tree
from dlc.core.drafts import draft_folder

# Every file has the same time, whenever it was written.
TIME = 315532800  # 1980


def snapshot(files: Tree, cache: Path) -> Path:
    """A folder below `cache` with exactly these files (by their path from it), named by their content.

    Edits of the checkout while a build runs do not reach the build. Two builds may write the same folder at once.
    """
    digest = hashlib.sha256()
    for path, file in sorted(files.items()):
        digest.update(os.fsencode(path) + f"\0{file.executable}\0{hashlib.sha256(file.data).hexdigest()}\n".encode())
    folder = cache / "snapshots" / digest.hexdigest()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(cache) as drafts:
            draft = drafts / "files"
            draft.mkdir()
            _write(files, draft)
            try:
                draft.rename(folder)
            except OSError:  # another build was faster: its content is the same
                if not folder.is_dir():
                    raise
    return folder


def _write(files: Tree, folder: Path) -> None:
    for path, file in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(0o755 if file.executable else 0o644)
    for entry in (folder, *folder.rglob("*")):
        if entry.is_dir():
            entry.chmod(0o755)  # whatever the umask is: modes reach the image
        os.utime(entry, (TIME, TIME))
