"""Exports an image from the engine as an archive, reads it and removes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dlc.build.buildkit_log import ENGINE_FULL
from dlc.core.atomic_files import scratch_folder
from dlc.core.errors import DiskError, ProcessError
from dlc.engine.connection import Engine
from dlc.images.inspection.archive import Archive, compressed_size, read

SAVE_SECONDS = 1800.0
Say = Callable[[str], None]


def archive(engine: Engine, ref: str, say: Say = lambda _: None) -> Archive:
    """Layers and files of an image that the engine has; `say` is told what is done. Needs its size in TMPDIR."""
    with _saved(engine, ref, say) as path:
        return read(path)


def measured(engine: Engine, ref: str, say: Say = lambda _: None) -> tuple[Archive, int]:
    """The same, and the bytes of its layers as a push sends them."""
    with _saved(engine, ref, say) as path:
        found = read(path)
        return found, compressed_size(path, lambda number, count: say(f"{ref}: compresses layer {number} of {count}"))


@contextmanager
def _saved(engine: Engine, ref: str, say: Say) -> Iterator[Path]:
    with scratch_folder("dlc-image-") as folder:
        path = folder / "image.tar"
        say(f"{ref}: the engine saves it")
        save(engine, ref, path)
        say(f"{ref}: reads its files")
        yield path


def save(engine: Engine, ref: str, path: Path) -> None:
    """Write the archive of an image. Raises DiskError when the disk is full, ProcessError where the engine fails."""
    try:
        engine.docker(
            "save", "--output", str(path), ref, timeout=SAVE_SECONDS, grace=0.0
        )  # what it wrote is thrown away
    except ProcessError as error:
        if "no space left on device" not in error.message:
            raise
        here = str(path.parent) in error.message.partition("\n")[2]  # else it was the engine's own disk
        remedy = f"free space in {path.parent.parent}, or name a larger folder in TMPDIR" if here else ENGINE_FULL
        raise DiskError(error.message, remedy) from None
