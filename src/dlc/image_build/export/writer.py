"""Writes an exported folder whole or not at all."""

from __future__ import annotations

from pathlib import Path

from dlc.core.atomic_files import report_disk_errors, scratch_folder
from dlc.core.checkout import Tree
from dlc.core.digests import FOLDER_MODE, MODE
from dlc.core.errors import UsageError

PROGRAM_MODE = 0o755
ANOTHER = "name a folder that is not there yet"


def require_new_folder(folder: Path) -> None:
    """Raise UsageError for a folder that something is in, for one that cannot be replaced, and for one in no folder."""
    with report_disk_errors(folder, ""):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise UsageError(f"{folder}: expected a new or an empty folder, found a file or a link", ANOTHER)
        if not folder.parent.is_dir():
            raise UsageError(f"{folder.parent}: expected a folder, in which {folder.name} is made, found none", ANOTHER)
        if folder.exists() and (first := next(folder.iterdir(), None)):
            raise UsageError(f"{folder}: expected a new or an empty folder, found {first.name} in it", ANOTHER)
    if folder.exists() and (folder.is_mount() or folder.samefile(Path.cwd())):
        raise UsageError(f"{folder}: a mount, or the current folder: it cannot be replaced in one step", ANOTHER)


def write_folder(files: Tree, folder: Path) -> None:
    """Write the files beside `folder`, then give them its name: a kill leaves nothing that looks like an export.

    Raises UsageError as `require_new_folder` does and for a folder that cannot be written, DiskError for a full disk.
    """
    folder = folder.absolute()
    require_new_folder(folder)
    with report_disk_errors(folder.parent, ""), scratch_folder(f".{folder.name}.export-", folder.parent) as draft:
        made = draft / "files"
        made.mkdir()
        for path, file in files.items():
            target = made / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)
            target.chmod(PROGRAM_MODE if file.executable else MODE)
        for entry in (made, *made.rglob("*")):
            if entry.is_dir():
                entry.chmod(FOLDER_MODE)
        made.rename(folder)
