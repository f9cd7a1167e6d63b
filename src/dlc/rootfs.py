"""Makes the root file system under our own base image: a minimal Debian from its packages, as one tar file.

No registry is needed. The tar is kept in the cache folder under a name that says how it was made, and is written
under another name first, so that an interrupted run leaves nothing that the next one would take for whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from dlc.engine import packages
from dlc.errors import BaseImageError
from dlc.mmdebstrap import arguments
from dlc.process import run

BUILD_SECONDS = 900.0


def folder(suite: str, cache: Path) -> Path:
    """Where the tar of this suite is, or will be: named after what it is made with."""
    recipe = hashlib.sha256(" ".join(arguments(suite)).encode()).hexdigest()[:12]
    return cache / "rootfs" / f"{suite}-{recipe}"


def make(suite: str, cache: Path, epoch: int) -> Path:
    """Return the folder holding `rootfs.tar` for a Debian suite, making it where it is missing.

    `epoch` (seconds) bounds every time inside. Raises BaseImageError when Debian's packages cannot be had.
    """
    target = folder(suite, cache)
    tar = target / "rootfs.tar"
    if tar.exists():
        return target
    if shutil.which("mmdebstrap") is None:
        packages.install(["mmdebstrap"], cache / "apt")
    target.mkdir(parents=True, exist_ok=True)
    draft = target / f".rootfs.{os.getpid()}.tar"
    print(f"making the {suite} base file system from Debian packages", flush=True)
    try:
        done = run(
            [*arguments(suite), str(draft)], env={"SOURCE_DATE_EPOCH": str(epoch)}, check=False, timeout=BUILD_SECONDS
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()[
                -5:
            ]
            raise BaseImageError(f"mmdebstrap {suite}: " + "; ".join(lines), "check that apt reaches its mirrors")
        draft.rename(tar)
    finally:
        draft.unlink(missing_ok=True)
    return target
