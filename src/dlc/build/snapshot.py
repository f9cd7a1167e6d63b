"""Writes the part of the tree that a plan was made from to a folder for the build: what was hashed is what is built."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from dlc.core.checkout import Tree

# Folders and files of equal content get equal times, whenever they were written.
TIME = 315532800  # 1980


def snapshot(files: Tree, cache: Path) -> Path:
    """A folder below `cache` with exactly these files (by their path from it), named by their content.

    Whoever edits the checkout while a build runs changes nothing in it. Two builds may write the same one at once.
    """
    digest = hashlib.sha256()
    for path, file in sorted(files.items()):
        digest.update(os.fsencode(path) + f"\0{file.executable}\0{hashlib.sha256(file.data).hexdigest()}\n".encode())
    folder = cache / "snapshots" / digest.hexdigest()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        _write(files, draft)
        try:
            draft.rename(folder)
        except OSError:  # another build was faster: its content is the same
            shutil.rmtree(draft)
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
            entry.chmod(0o755)  # mkdtemp's is for its owner alone, and modes reach the image
        os.utime(entry, (TIME, TIME))
