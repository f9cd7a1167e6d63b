"""Finds the checkout and reads its files once, as one value."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dlc.core.errors import SpecError, UsageError

FOLDERS = ("buildspec", "docker", "src/entrypoint", "src/dlc_runtime", "src/dlc_channel")
SIGN = Path("buildspec/defaults.yml")
# The checkout that holds this file, if any does.
OWN = Path(__file__).absolute().parents[3]
# What programs leave beside sources: part of no tree, and so of no content key and no build. Sources have no hidden
# files: .git, .DS_Store, .a.swp and .mypy_cache are all hidden. Vim probes a folder with a file named 4913.
LEFTOVERS = (".*", "__pycache__", "*.pyc", "*.sw[a-p]", "*~", "#*#", "4913", "*.orig", "*.rej", "Thumbs.db")


@dataclass(frozen=True)
class SourceFile:
    """A file's bytes, and whether it may be executed. Nothing else of a file reaches an image."""

    data: bytes
    executable: bool = False


Tree = Mapping[str, SourceFile]


def find_root(start: Path | None = None) -> Path:
    """Return the nearest folder with a buildspec: `start` (default: the current folder) or one above it.

    No other is used.

    Raises UsageError if there is none.
    """
    here = (start or _current_folder()).absolute()
    for folder in (here, *here.parents):
        if (folder / SIGN).is_file():
            return folder
    raise UsageError(
        f"{here}: expected {SIGN} in this folder or one above it, found none",
        "run dlc inside a checkout of the repository",
    )


def find_root_or_own() -> Path:
    """Do as `find_root`, or else return the checkout of this dlc: users start jobs from where their scripts are.

    Only for what writes nothing there. Raises UsageError as `find_root` does if dlc belongs to none.
    """
    try:
        return find_root()
    except UsageError:
        if not (OWN / SIGN).is_file():
            raise
        return OWN


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder was removed", "run dlc inside a checkout of the repository") from None


def read_tree(root: Path) -> Tree:
    """Read every file of FOLDERS but LEFTOVERS, by its path from `root`, with forward slashes, sorted.

    Raises OSError for a file or a folder that cannot be read: without it the tree would be another one.
    """
    files: dict[str, SourceFile] = {}
    for top in FOLDERS:
        for folder, names, file_names in os.walk(root / top, onerror=_refuse_folder):
            names[:] = sorted(name for name in names if not _is_left_over(name))
            for name in sorted(name for name in file_names if not _is_left_over(name)):
                path = Path(folder, name)
                if path.is_file():
                    files[path.relative_to(root).as_posix()] = _read_source(path)
    return files


def _read_source(path: Path) -> SourceFile:
    """Read a file.

    Its owner decides whether it may be executed, as in git: whoever reads it, from whatever file system.
    """
    return SourceFile(path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))


def _refuse_folder(error: OSError) -> None:
    # A checkout may be without sources.
    if not isinstance(error, FileNotFoundError):
        raise error


def _is_left_over(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in LEFTOVERS)


def read_text(tree: Tree, path: str) -> str:
    """Return a file as text. Raises SpecError if it is not there or not UTF-8."""
    if path not in tree:
        raise SpecError(f"{path}: expected this file, found none")
    try:
        return tree[path].data.decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x}") from None


def files_below(tree: Tree, folder: str) -> Tree:
    """Return the files under `folder`, by their path from it."""
    prefix = f"{folder}/"
    return {path.removeprefix(prefix): file for path, file in tree.items() if path.startswith(prefix)}
