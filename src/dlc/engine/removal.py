"""Removes everything that dlc put on this host: the private engine, its data, the cache, and Debian packages."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dlc.core.environment import cache_folder, engine_folder
from dlc.core.errors import EngineError
from dlc.core.process import run
from dlc.debian import apt
from dlc.engine.private import PrivateEngine

ENGINE_NAMES = ("data", "exec", "docker.sock", "docker.pid", "killed", "daemon.json", "dockerd.log", "apt", "lock")
CACHE_NAMES = ("apt", "ca", "drafts", "index-wheels", "jobs", "logs", "nothing", "pinned", "recipes", "rootfs",
               "snapshots", "tools", "turns", "wheels")  # fmt: skip
SYSTEM_DATA = Path("/var/lib/docker")  # of a Docker engine that is not ours; Debian's docker.io deletes it on purge


@dataclass(frozen=True)
class Removal:
    """What would be removed, and what stays, with the reason."""

    paths: tuple[Path, ...]
    packages: tuple[str, ...]
    kept: tuple[str, ...]


def plan() -> Removal:
    """Look at the host and change nothing. In a folder that a variable names, only dlc's own entries are removed."""
    engine, cache = engine_folder(), cache_folder()
    paths = [*_entries(engine, ENGINE_NAMES, "DLC_ENGINE_DIR"), *_entries(cache, CACHE_NAMES, "DLC_CACHE_DIR")]
    kept = [f"{path}: not made by dlc" for folder in {engine, cache} for path in _others(folder, [*paths, engine])]
    brought = apt.brought(cache / "apt")
    if brought and (reason := _packages_stay(brought)):
        return Removal(tuple(paths), (), (*sorted(kept), f"packages {', '.join(brought)}: {reason}"))
    return Removal(tuple(paths), tuple(brought), tuple(sorted(kept)))


def carry_out(removal: Removal, force: bool) -> None:
    """Stop the engine and remove what `plan` found. Raises EngineError if the engine is in use, or for a mount."""
    private = PrivateEngine(engine_folder())
    private.stop(force)
    apt.remove_guard()
    if not removal.paths and not removal.packages:
        return
    with private.lock():  # nobody starts it while its folder is removed
        _unmount(removal.paths)
        if removal.packages:
            apt.remove(removal.packages, cache_folder() / "apt")
        for path in removal.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for folder in (engine_folder(), cache_folder()):
        (folder / "lock").unlink(missing_ok=True)
        with suppress(OSError):  # something else is in it, or it is a mount point
            folder.rmdir()


def _entries(folder: Path, names: tuple[str, ...], variable: str) -> list[Path]:
    """What is dlc's in a folder: everything, unless `variable` names a folder that others may use too."""
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    own = [path for path in present if path.name in names or not os.environ.get(variable)]
    return [path for path in own if path != cache_folder() / "engine"]  # it may be another engine, in use


def _others(folder: Path, known: list[Path]) -> list[Path]:
    return [path for path in folder.iterdir() if path not in known] if folder.is_dir() else []


def _packages_stay(names: list[str]) -> str:
    """Why packages that dlc installed must stay, or the empty string."""
    if reason := apt.can_install():
        return reason
    if SYSTEM_DATA.is_dir() and any(SYSTEM_DATA.iterdir()):
        return f"another Docker engine keeps its data in {SYSTEM_DATA}, which would be removed with them"
    if others := apt.needed_by_others(names):
        return f"needed by {', '.join(others)}"
    return ""


def _unmount(paths: tuple[Path, ...]) -> None:
    """Undo the mounts that a killed dockerd left. Raises EngineError for any other: it may hold somebody's data."""
    for mount in _mounts(paths):
        if not _is_dockerds(mount, paths):
            where = mount.point
            raise EngineError(f"{where}: a mount, which dlc did not make", f"umount {where}, then dlc engine remove")
        run(["umount", mount.point])


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo: what of which file system is mounted where."""

    root: str
    point: str
    kind: str
    options: str = ""


def _is_dockerds(mount: Mount, paths: tuple[Path, ...]) -> bool:
    """A folder mounted onto itself, a network namespace, layers of a container or of a build's step, shared memory."""
    if mount.kind == "overlay":
        return any(f"dir={path}/" in mount.options for path in paths)
    if mount.kind == "tmpfs":
        return bool(re.search(r"/containers/[0-9a-f]{64}/mounts/shm$", mount.point))
    return mount.kind == "nsfs" or (mount.root != "/" and mount.point.endswith(mount.root))


def _mounts(paths: tuple[Path, ...]) -> list[Mount]:
    """Each mount below `paths`, the last one first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        root, point = fields.split()[3:5]
        if any(Path(point).is_relative_to(path) for path in paths):
            kind, *source_and_options = rest.split(maxsplit=2)
            found.append(Mount(root, point, kind, source_and_options[-1]))
    return found[::-1]
