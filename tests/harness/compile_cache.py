"""Files of a cache of compiled code."""

from __future__ import annotations

import os
from pathlib import Path

KEY = {"DLC_CONTENT_KEY": "0123456789abcdef"}  # of the image


def fill(folder: Path, name: str, size: int, used: float) -> Path:
    """A file in the cache, and when it was used."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path
