"""Exports an image from the engine as an archive, reads it and removes it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dlc.engine.connection import Engine
from dlc.inspection.archive import Archive, read

SAVE_SECONDS = 1800.0


def archive(engine: Engine, ref: str) -> Archive:
    """Layers and files of an image that the engine has. Needs the image's size in TMPDIR."""
    with tempfile.TemporaryDirectory(prefix="dlc-image-") as folder:
        path = Path(folder, "image.tar")
        engine.docker("save", "--output", str(path), ref, timeout=SAVE_SECONDS)
        return read(path)
