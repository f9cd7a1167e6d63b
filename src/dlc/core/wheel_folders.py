"""The user's local wheel folders: what uv and pip look into besides an index."""

from __future__ import annotations

import os
from pathlib import Path


def local_wheel_folders() -> list[Path]:
    """The folders that are there, from UV_FIND_LINKS (commas) and PIP_FIND_LINKS (spaces)."""
    words = os.environ.get("UV_FIND_LINKS", "").split(",") + os.environ.get("PIP_FIND_LINKS", "").split()
    folders = [
        Path(word.removeprefix("file://")) for word in words if word and "://" not in word.removeprefix("file://")
    ]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
