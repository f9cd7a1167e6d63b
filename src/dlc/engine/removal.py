"""Takes away everything that dlc put on this host: the private engine, its data, the cache, and Debian packages."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from dlc.core.environment import cache_folder, engine_folder
from dlc.core.errors import EngineError
from dlc.debian import apt
from dlc.engine.embedded import EmbeddedEngine

ENGINE_NAMES = ("data", "exec", "docker.sock", "docker.pid", "daemon.json", "dockerd.log", "apt", "lock")
CACHE_NAMES = ("apt", "ca", "logs", "nothing", "pinned", "recipes", "rootfs", "tools", "wheels")
SYSTEM_DATA = Path("/var/lib/docker")  # of a Docker engine that is not ours; Debian's docker.io deletes it on purge


@dataclass(frozen=True)
class Removal:
    """What would go, and what stays with the reason."""

    paths: tuple[Path, ...]
    packages: tuple[str, ...]
    kept: tuple[str, ...]


def plan() -> Removal:
    """Look at the host; nothing is changed. In a folder that a variable names only dlc's own entries go."""
    engine, cache = engine_folder(), cache_folder()
    paths = [*_entries(engine, ENGINE_NAMES), *_entries(cache, CACHE_NAMES)]
    kept = [f"{path}: not made by dlc" for folder in {engine, cache} for path in _others(folder, [*paths, engine])]
    brought = apt.brought(cache / "apt")
    if brought and (reason := _packages_stay(brought)):
        return Removal(tuple(paths), (), (*sorted(kept), f"packages {', '.join(brought)}: {reason}"))
    return Removal(tuple(paths), tuple(brought), tuple(sorted(kept)))


def carry_out(removal: Removal, force: bool) -> None:
    """Stop the engine and remove what `plan` said. Raises EngineError where something is at work on it, or mounted."""
    embedded = EmbeddedEngine(engine_folder())
    embedded.stop(force)
    apt.remove_guard()
    if not removal.paths and not removal.packages:
        return
    with embedded.lock():  # nobody starts it while its folder goes
        if mounted := _mounts(removal.paths):
            raise EngineError(f"{mounted[0]}: still mounted", f"umount {mounted[0]}, then dlc engine remove again")
        if removal.packages:
            apt.remove(removal.packages, cache_folder() / "apt")
        for path in removal.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for folder in (engine_folder(), cache_folder()):
        (folder / "lock").unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _entries(folder: Path, names: tuple[str, ...]) -> list[Path]:
    return [folder / name for name in names if (folder / name).exists() or (folder / name).is_symlink()]


def _others(folder: Path, known: list[Path]) -> list[Path]:
    return [path for path in folder.iterdir() if path not in known] if folder.is_dir() else []


def _packages_stay(names: list[str]) -> str:
    """Why packages that dlc brought must not go, or the empty string."""
    if reason := apt.can_install():
        return reason
    if SYSTEM_DATA.is_dir() and any(SYSTEM_DATA.iterdir()):
        return f"another Docker engine keeps its data in {SYSTEM_DATA}, which would go with them"
    if others := apt.needed_by_others(names):
        return f"needed by {', '.join(others)}"
    return ""


def _mounts(paths: tuple[Path, ...]) -> list[str]:
    """Mount points below the paths: what is mounted there may be somebody's data."""
    lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    points = [line.split()[1] for line in lines]
    return [point for point in points if any(Path(point).is_relative_to(path) for path in paths)]
