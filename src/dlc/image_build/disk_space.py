"""Refuses a build that cannot fit on the engine's disk.

    needed = copies x budget of each image that is not there + WORK

Copies: the layers as blobs (containerd only), the layers unpacked, and uv's cache, which holds each wheel unpacked.
An older state of an image counts as there, because most of its layers are cached. If they are not, the build itself
reports a full disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.buildspec.variant import Variant
from dlc.core.errors import DiskError
from dlc.core.text import format_bytes
from dlc.engine.docker_client import Engine

GB = 10**9
# Base, compilers and apt's caches take this while images are built.
WORK = 2 * GB
COPIES_CONTAINERD, COPIES_CLASSIC = 3, 2


@dataclass(frozen=True)
class Need:
    """Bytes that a build may need: image id -> all copies of the image."""

    images: Mapping[str, int]

    @property
    def total(self) -> int:
        """Return the bytes of all images at the same time, and WORK."""
        return sum(self.images.values()) + WORK if self.images else 0


def estimate_need(variants: Sequence[Variant], existing: Collection[str], *, containerd_store: bool) -> Need:
    """Estimate the need of the images whose refs are not among `existing`. Pure."""
    copies = COPIES_CONTAINERD if containerd_store else COPIES_CLASSIC
    return Need({v.id: int(copies * v.settings.budget.bytes) for v in variants if v.ref not in existing})


def data_folder(engine: Engine) -> Path | None:
    """Return the folder where an engine of this host keeps its data.

    None if its disk cannot be seen from here, or by this user.
    """
    if engine.address and not engine.address.startswith("unix://"):
        return None
    folder = Path(engine.data_root or "/nonexistent")
    try:
        return folder if folder.is_dir() else None
    except PermissionError:
        # A folder above it is closed to this user.
        return None


def require_room(needed: Need, folder: Path, free: int | None = None) -> None:
    """Raise DiskError if less is free at `folder` than a build may need. `free`: bytes, if they are known already."""
    free = shutil.disk_usage(folder).free if free is None else free
    if free >= needed.total:
        return
    largest = sorted(needed.images.items(), key=lambda item: -item[1])
    names = ", ".join(f"{name} {format_bytes(size)}" for name, size in largest[:5])
    more = f" and {len(largest) - 5} more" if len(largest) > 5 else ""
    raise DiskError(
        f"{folder}: expected {format_bytes(needed.total)} free for this build, found {format_bytes(free)};"
        f" by the budgets of the images: {names}{more}, and {format_bytes(WORK)} to build with",
        "free space there (docker system df, docker builder prune), build fewer images at a time, or --no-disk-check",
    )
