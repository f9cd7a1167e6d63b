"""Makes the root file system under our own base image: a minimal Debian from its packages, as one tar file.

No registry is needed. The tar is kept in the cache, in a folder that is named after what it is made from. It is moved
there when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from dlc.core.drafts import draft_folder
from dlc.core.errors import BaseImageError, DiskError
from dlc.core.file_lock import exclusive
from dlc.core.process import stream, tail
from dlc.debian import apt
from dlc.debian.mmdebstrap import EPOCH, arguments, holding, recipe
from dlc.debian.recorded import preferences

BUILD_SECONDS = 900.0
# What mmdebstrap says at the start of a step that takes long.
STEP = re.compile(r"I: ((?:download|extract|install|creat)ing .*?)(?: in the chroot| inside the chroot)?\.\.\.")


def folder(suite: str, recorded: Mapping[str, str], cache: Path) -> Path:
    """Where the tar of this suite is, or will be: named after what it is made from."""
    digest = hashlib.sha256(recipe(suite, recorded).encode()).hexdigest()[:12]
    return cache / "rootfs" / f"{suite}-{digest}"


def make(suite: str, recorded: Mapping[str, str], cache: Path) -> Path:
    """The folder with `rootfs.tar` of a Debian suite; the tar is made if it is missing.

    `recorded`: package -> version that is preferred. Raises BaseImageError if the Debian packages are not
    available, DiskError if the disk is full.
    """
    target = folder(suite, recorded, cache)
    if (target / "rootfs.tar").exists():
        return target
    require_program(cache)
    target.mkdir(parents=True, exist_ok=True)
    with exclusive(target, BUILD_SECONDS), draft_folder(cache) as draft:
        if not (target / "rootfs.tar").exists():  # another build may have made it meanwhile
            _say(suite, "made from Debian packages")
            _make(suite, recorded, draft)
            (draft / "rootfs.tar").replace(target / "rootfs.tar")
    return target


def require_program(cache: Path) -> None:
    """Install mmdebstrap if this host lacks it. Raises HostError, PackageIndexError."""
    if shutil.which("mmdebstrap") is None:
        apt.install(["mmdebstrap"], cache / "apt")


def kept(made: Path, suite: str, cache: Path) -> Path:
    """The folder with a `rootfs.tar` of the suite that stays when a newer one is made: for tools that no image holds.

    `made` is a folder of `make`, whose tar is taken where there is none yet.
    """
    digest = hashlib.sha256(" ".join(arguments(suite)).encode()).hexdigest()[:12]
    target = cache / "rootfs" / f"tools-{suite}-{digest}"
    if not (target / "rootfs.tar").exists():
        target.mkdir(parents=True, exist_ok=True)
        with draft_folder(cache) as draft:
            os.link(made / "rootfs.tar", draft / "rootfs.tar")
            (draft / "rootfs.tar").replace(target / "rootfs.tar")
    return target


def _make(suite: str, recorded: Mapping[str, str], draft: Path) -> None:
    held = draft / "recorded"
    held.write_text(preferences(recorded))
    program, *rest = arguments(suite)
    argv = [program, *holding(held), *rest, str(draft / "rootfs.tar")]
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        if step := STEP.fullmatch(text):
            _say(suite, step[1])

    if stream(argv, line, env={"SOURCE_DATE_EPOCH": str(EPOCH)}, timeout=BUILD_SECONDS):
        said = "\n".join(lines)
        words = "; ".join([line for line in lines if line.startswith("E:")] or tail(said, 5).splitlines())
        if "No space left on device" in said:
            raise DiskError(f"mmdebstrap {suite}: {words}", "free space in the cache folder and in TMPDIR")
        raise BaseImageError(f"mmdebstrap {suite}: {words}", "check that apt reaches its mirrors")


def _say(suite: str, what: str) -> None:
    print(f"{suite} base file system: {what}", file=sys.stderr, flush=True)
