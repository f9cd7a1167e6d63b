"""Finds the recipes and the project on top of them, and reads their files once, as one value."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from dlc.core.errors import SpecError, UsageError

FOLDERS = ("buildspec", "docker", "src/entrypoint", "src/dlc_runtime", "src/dlc_channel")
SIGN = Path("buildspec/defaults.yml")
# The checkout that holds this file, if any does.
OWN = Path(__file__).absolute().parents[3]
# What a wheel has instead (scripts/wheel_data.py puts it there), in the folders of a checkout.
INSTALLED = Path(__file__).absolute().parents[1] / "recipes"
IN_WHEEL = "dlc/recipes/"
OTHER_RECIPES = "name a release's wheel, dlc-VERSION-py3-none-any.whl, or a checkout of dlc"
# A user's own image, and the folder of its locks: docs/own-images.md.
PROJECT, LOCKS = "dlc.yml", "locks"
# What `dlc scan` lets pass in a project, beside its file.
PROJECT_EXCEPTIONS = "scan-exceptions.yml"
# What programs leave beside sources: part of no tree, and so of no content key and no build. Sources have no hidden
# files: .git, .DS_Store, .a.swp and .mypy_cache are all hidden. Vim probes a folder with a file named 4913.
LEFTOVERS = (".*", "__pycache__", "*.pyc", "*.sw[a-p]", "*~", "#*#", "4913", "*.orig", "*.rej", "Thumbs.db")


@dataclass(frozen=True)
class SourceFile:
    """A file's bytes, and whether it may be executed. Nothing else of a file reaches an image."""

    data: bytes
    executable: bool = False

    @cached_property
    def digest(self) -> str:
        """Return sha256 of the bytes, in hex. Many targets of a plan have the same file."""
        return hashlib.sha256(self.data).hexdigest()


Tree = Mapping[str, SourceFile]


@dataclass(frozen=True)
class Workspace:
    """Where images are described: the folder of the recipes, and the project on top of them, if there is one."""

    recipes: Path
    project: Path | None = None

    @property
    def root(self) -> Path:
        """Return the folder whose commit an image is built from."""
        return self.project or self.recipes


def is_in_git(folder: Path) -> bool:
    """Tell whether a folder, or one above it, is a git checkout."""
    return any((above / ".git").exists() for above in (folder, *folder.parents))


def find_workspace(start: Path | None = None) -> Workspace:
    """Find project and recipes from `start` (default: the current folder) upwards; the nearest ones count.

    Recipes are those of a checkout around the folder, else of the checkout of this dlc, else those of its wheel.

    Raises UsageError if there are no recipes.
    """
    here = (start or _current_folder()).absolute()
    project: Path | None = None
    for folder in (here, *here.parents):
        if (folder / SIGN).is_file():
            return Workspace(folder, project)
        if project is None and (folder / PROJECT).is_file():
            project = folder
    for recipes in (OWN, INSTALLED):
        if (recipes / SIGN).is_file():
            return Workspace(recipes, project)
    raise _no_recipes(here)


def find_root(start: Path | None = None) -> Path:
    """Return the nearest checkout: `start` (default: the current folder) or a folder above it.

    For verbs that change the recipes. Raises UsageError if there is none.
    """
    here = (start or _current_folder()).absolute()
    if found := find_checkout(here):
        return found
    raise _no_recipes(here)


def find_checkout(start: Path | None = None) -> Path | None:
    """Return the nearest checkout as `find_root` does, None if there is none around the folder."""
    here = (start or _current_folder()).absolute()
    return next((folder for folder in (here, *here.parents) if (folder / SIGN).is_file()), None)


def _no_recipes(here: Path) -> UsageError:
    return UsageError(
        f"{here}: expected {SIGN} in this folder or one above it, found none",
        "run dlc inside a checkout of the repository",
    )


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder was removed", "run dlc inside a checkout of the repository") from None


def read_workspace(workspace: Workspace | None = None) -> Tree:
    """Read the recipes, and the project's file and locks (default: of the workspace around the current folder).

    Raises as `find_workspace` and `read_tree` do.
    """
    found = workspace or find_workspace()
    own = read_project(found.project) if found.project else {}
    return {**read_tree(found.recipes), **own}


def read_project(folder: Path) -> Tree:
    """Read what a project adds to the recipes: its file, its locks, and its exceptions of a scan if it has some.

    A lock is the same whatever ends its lines: git writes them with CRLF on Windows.
    """
    _require_inside(folder / LOCKS, folder, folder)
    names = [PROJECT, *(name for name in (PROJECT_EXCEPTIONS,) if (folder / name).is_file())]
    locks = {path: SourceFile(file.data.replace(b"\r\n", b"\n")) for path, file in read_tree(folder, (LOCKS,)).items()}
    return {**{name: _read_source(folder / name) for name in names}, **locks}


def read_tree(root: Path, tops: Sequence[str] = FOLDERS) -> Tree:
    """Read every file of the folders `tops` but LEFTOVERS, by its path from `root`, with forward slashes, sorted.

    Raises OSError for a file or a folder that cannot be read: without it the tree would be another one. Raises
    SpecError for a link that leads out of it: files of this host would be in images, in exports and in keys.
    """
    files: dict[str, SourceFile] = {}
    for top in tops:
        for folder, names, file_names in os.walk(root / top, onerror=_refuse_folder):
            names[:] = sorted(name for name in names if not is_left_over(name))
            # The walk does not enter links to folders: what is in them would be missing.
            for link in (path for name in names if (path := Path(folder, name)).is_symlink()):
                raise SpecError(f"{link}: expected a folder, found a link to one", "put the folder itself there")
            for name in sorted(name for name in file_names if not is_left_over(name)):
                path = Path(folder, name)
                if path.is_file():
                    _require_inside(path, root, root / top)
                    files[path.relative_to(root).as_posix()] = _read_source(path)
    return files


def read_other_recipes(path: Path) -> Tree:
    """Read the recipes of another dlc: of its wheel, or of a checkout.

    Raises UsageError for what is neither, OSError for what cannot be read.
    """
    # No other verb needs it.
    import zipfile

    if path.is_dir():
        if not (path / SIGN).is_file():
            raise UsageError(f"{path}: expected a checkout of dlc, found no {SIGN} in it", OTHER_RECIPES)
        return read_tree(path)
    try:
        with zipfile.ZipFile(path) as wheel:
            files = {info.filename: info for info in wheel.infolist() if not info.is_dir()}
            found = {
                name.removeprefix(IN_WHEEL): SourceFile(wheel.read(info), bool(info.external_attr >> 16 & stat.S_IXUSR))
                for name, info in sorted(files.items())
                if name.startswith(tuple(f"{IN_WHEEL}{top}/" for top in FOLDERS))
            }
    except zipfile.BadZipFile:
        raise UsageError(f"{path}: expected a wheel of dlc, found another file", OTHER_RECIPES) from None
    if SIGN.as_posix() not in found:
        raise UsageError(f"{path}: expected a wheel of dlc with recipes, found none in it", OTHER_RECIPES)
    return found


def _read_source(path: Path) -> SourceFile:
    """Read a file.

    Its owner decides whether it may be executed, as in git: whoever reads it, from whatever file system.
    """
    return SourceFile(path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))


def _require_inside(path: Path, root: Path, top: Path) -> None:
    """Raise SpecError for a link that leads out of `root` and `top`, which may be a link itself."""
    if path.is_symlink() and not any(path.resolve().is_relative_to(place.resolve()) for place in {root, top}):
        raise SpecError(
            f"{path}: expected a file of {root}, found a link out of it, to {path.readlink()}",
            "put the file itself there",
        )


def _refuse_folder(error: OSError) -> None:
    # A checkout may be without sources.
    if not isinstance(error, FileNotFoundError):
        raise error


def is_left_over(name: str) -> bool:
    """Tell whether a file or folder of this name is part of no tree."""
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
