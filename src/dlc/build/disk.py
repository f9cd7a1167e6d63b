"""Predicts from the locks what a build takes on the engine's disk, and refuses one that cannot fit.

    image = copies x (system + unpacked packages), copies = 3 in the containerd store, 2 in the classic one
    build = the images that the engine does not have + WORK for each of their bases

Copies: the layer as a blob (containerd only), the layer unpacked, and uv's cache, which holds each wheel unpacked.
Unpacked packages take 4 times their wheels while these are Python and C++, and 1.7 times where they are CUDA's
libraries, which are whatever is beyond the first 0.5 GB; WORK is compilers, apt's caches and the base itself. The
factors were measured on the images of this repository: docs/measurements.md. Images that share wheels take less. An
image that is there in an older state counts for nothing, because most of its layers are cached: where they are not,
the build itself says that the disk is full.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlc.buildspec.locked import download_bytes
from dlc.core.checkout import Tree
from dlc.core.errors import DiskError
from dlc.core.process import run
from dlc.engine.connection import Engine
from dlc.plan.plan import Plan

GB = 10**9
SYSTEM = int(0.35 * GB)  # base, compilers of torch.compile, launcher
SMALL = int(0.5 * GB)  # of wheels
SMALL_FACTOR, LARGE_FACTOR = 4.0, 1.7
WORK = int(1.5 * GB)
COPIES_CONTAINERD, COPIES_CLASSIC = 3, 2


@dataclass(frozen=True)
class Prediction:
    """Bytes on the engine's disk: of each image by its id, and of what they are built with."""

    images: Mapping[str, int]
    work: int

    @property
    def total(self) -> int:
        """All of it at the same time."""
        return sum(self.images.values()) + self.work


def unpacked(download: int) -> int:
    """Bytes of an image whose locked files are `download` bytes."""
    small = min(download, SMALL)
    return int(SYSTEM + SMALL_FACTOR * small + LARGE_FACTOR * (download - small))


def predict(plan: Plan, tree: Tree, existing: Collection[str], *, containerd_store: bool) -> Prediction:
    """What the selected images of `plan` take that are not among `existing`, the refs that the engine has. Pure."""
    copies = COPIES_CONTAINERD if containerd_store else COPIES_CLASSIC
    targets = [plan.target(identifier) for identifier in plan.selected]
    targets = [target for target in map(plan.target, plan.selected) if target.tags[0] not in existing]
    images = {
        target.id: copies * unpacked(download_bytes(tree, str(target.context).removeprefix("repo:")))
        for target in targets
    }
    return Prediction(images, WORK * len({target.contexts["rootfs"] for target in targets}))


def data_folder(engine: Engine) -> Path | None:
    """Where an engine of this host keeps its data; None for one whose disk cannot be seen from here."""
    if engine.host and not engine.host.startswith("unix://"):
        return None
    done = run(["docker", "info", "--format", "{{.DockerRootDir}}"], env=engine.environment, check=False)
    folder = Path(done.stdout.strip() or "/nonexistent")
    return folder if folder.is_dir() else None


def require_room(prediction: Prediction, folder: Path, free: int | None = None) -> None:
    """Raise DiskError when less is free at `folder` than a build will take. `free` (bytes) is for who knows it."""
    free = shutil.disk_usage(folder).free if free is None else free
    if free >= prediction.total:
        return
    largest = sorted(prediction.images.items(), key=lambda item: -item[1])
    names = ", ".join(f"{name} {_gb(size)}" for name, size in largest[:5])
    more = f" and {len(largest) - 5} more" if len(largest) > 5 else ""
    raise DiskError(
        f"{folder}: expected {_gb(prediction.total)} free for this build, found {_gb(free)}; predicted from the locks:"
        f" {names}{more}, {_gb(prediction.work)} to build with",
        "free space there (docker system df, docker builder prune), build fewer images at a time, or --no-disk-check",
    )


def _gb(size: int) -> str:
    return f"{size / GB:.1f} GB"
