"""Exports an image from the engine as an archive, reads it and removes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlc.build.failure import ENGINE_FULL
from dlc.core.errors import DiskError, ProcessError
from dlc.engine.connection import Engine
from dlc.images.inspection.archive import Archive, compressed_size, read

SAVE_SECONDS = 1800.0


def archive(engine: Engine, ref: str) -> Archive:
    """Layers and files of an image that the engine has. Needs the image's size in TMPDIR."""
    with _saved(engine, ref) as path:
        return read(path)


def measured(engine: Engine, ref: str) -> tuple[Archive, int]:
    """The same, and the bytes of its layers as a push sends them."""
    with _saved(engine, ref) as path:
        return read(path), compressed_size(path)


@contextmanager
def _saved(engine: Engine, ref: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dlc-image-") as folder:
        path = Path(folder, "image.tar")
        save(engine, ref, path)
        yield path


def save(engine: Engine, ref: str, path: Path) -> None:
    """Write the archive of an image. Raises DiskError when the disk is full, ProcessError where the engine fails."""
    try:
        engine.docker("save", "--output", str(path), ref, timeout=SAVE_SECONDS)
    except ProcessError as error:
        if "no space left on device" not in error.message:
            raise
        here = str(path.parent) in error.message.partition("\n")[2]  # else it was the engine's own disk
        remedy = f"free space in {path.parent.parent}, or name a larger folder in TMPDIR" if here else ENGINE_FULL
        raise DiskError(error.message, remedy) from None
