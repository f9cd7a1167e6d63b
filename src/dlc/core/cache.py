"""Where dlc keeps what it can make again: one folder for the user, with the embedded engine's folder in it."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`DLC_CACHE_DIR`, else `$XDG_CACHE_HOME/dlc`, else `~/.cache/dlc`."""
    if chosen := os.environ.get("DLC_CACHE_DIR"):
        return Path(chosen).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).absolute() / "dlc"


def engine_folder() -> Path:
    """`DLC_ENGINE_DIR`, else `engine` in the cache folder: socket, data, pid and log of the embedded engine."""
    chosen = os.environ.get("DLC_ENGINE_DIR")
    return Path(chosen).absolute() if chosen else cache_folder() / "engine"
