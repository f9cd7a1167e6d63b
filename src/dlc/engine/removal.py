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
from dlc.core.process import run_program
from dlc.debian import apt
from dlc.engine.private_engine import PrivateEngine

ENGINE_NAMES = ("data", "exec", "docker.sock", "docker.pid", "killed", "daemon.json", "dockerd.log", "apt", "lock")
CACHE_NAMES = ("apt", "ca", "drafts", "index-wheels", "jobs", "logs", "nothing", "pinned", "recipes", "rootfs",
               "snapshots", "tools", "turns", "wheels")  # fmt: skip
# Data of a Docker engine that is not ours. Debian's docker.io deletes it on purge.
SYSTEM_DATA = Path("/var/lib/docker")


@dataclass(frozen=True)
class Removal:
    """What would be removed, and what stays, with the reason."""

    paths: tuple[Path, ...]
    packages: tuple[str, ...]
    kept: tuple[str, ...]


def plan_removal() -> Removal:
    """Look at the host and change nothing. In a folder that a variable names, only dlc's own entries are removed."""
    engine, cache = engine_folder(), cache_folder()
    paths = [*_list_own(engine, ENGINE_NAMES, "DLC_ENGINE_DIR"), *_list_own(cache, CACHE_NAMES, "DLC_CACHE_DIR")]
    others = {path for folder in (engine, cache) for path in folder.glob("*")} - {*paths, engine}
    kept = [f"{path}: not made by dlc" for path in others]
    brought = apt.list_brought(cache / "apt")
    if brought and (reason := _why_packages_stay(brought)):
        return Removal(tuple(paths), (), (*sorted(kept), f"packages {', '.join(brought)}: {reason}"))
    return Removal(tuple(paths), tuple(brought), tuple(sorted(kept)))


def remove_all(removal: Removal, force: bool) -> None:
    """Stop the engine and remove what `plan` found. Raises EngineError if the engine is in use, or for a mount."""
    private = PrivateEngine(engine_folder())
    private.stop(force)
    apt.remove_guard()
    if not removal.paths and not removal.packages:
        return
    # Nobody may start it while its folder is removed.
    with private.lock():
        _unmount(removal.paths)
        if removal.packages:
            apt.remove_packages(removal.packages, cache_folder() / "apt")
        for path in removal.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for folder in (engine_folder(), cache_folder()):
        (folder / "lock").unlink(missing_ok=True)
        # Something else may be in it, or it is a mount point.
        with suppress(OSError):
            folder.rmdir()


def _list_own(folder: Path, names: tuple[str, ...], variable: str) -> list[Path]:
    """List what is dlc's in a folder: everything, unless `variable` names a folder that others may use too."""
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    own = [path for path in present if path.name in names or not os.environ.get(variable)]
    # That may be another engine, in use.
    return [path for path in own if path != cache_folder() / "engine"]


def _why_packages_stay(names: list[str]) -> str:
    """Return why packages that dlc installed must stay, or the empty string."""
    if reason := apt.can_install():
        return reason
    if SYSTEM_DATA.is_dir() and any(SYSTEM_DATA.iterdir()):
        return f"another Docker engine keeps its data in {SYSTEM_DATA}, which would be removed with them"
    if others := apt.list_dependents(names):
        return f"needed by {', '.join(others)}"
    return ""


def _unmount(paths: tuple[Path, ...]) -> None:
    """Undo the mounts that a killed dockerd left. Raises EngineError for any other: it may hold somebody's data."""
    for mount in _list_mounts(paths):
        if not _is_dockerds(mount, paths):
            where = mount.point
            raise EngineError(f"{where}: a mount, which dlc did not make", f"umount {where}, then dlc engine remove")
        run_program(["umount", mount.point])


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo: what of which file system is mounted where."""

    root: str
    point: str
    kind: str
    options: str = ""


def _is_dockerds(mount: Mount, paths: tuple[Path, ...]) -> bool:
    """Tell whether dockerd made a mount.

    Its kinds: a folder onto itself, a network namespace, layers, shared memory of a container.
    """
    if mount.kind == "overlay":
        return any(f"dir={path}/" in mount.options for path in paths)
    if mount.kind == "tmpfs":
        return bool(re.search(r"/containers/[0-9a-f]{64}/mounts/shm$", mount.point))
    return mount.kind == "nsfs" or (mount.root != "/" and mount.point.endswith(mount.root))


def _list_mounts(paths: tuple[Path, ...]) -> list[Mount]:
    """List each mount below `paths`, the last one first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        root, point = fields.split()[3:5]
        if any(Path(point).is_relative_to(path) for path in paths):
            kind, *source_and_options = rest.split(maxsplit=2)
            found.append(Mount(root, point, kind, source_and_options[-1]))
    return found[::-1]
