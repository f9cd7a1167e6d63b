"""The program uv for a platform that this host is not of: its wheel, by the hashes that exported builds take it by."""

from __future__ import annotations

import zipfile
from pathlib import Path

from dlc.build.wheels import keep_wheel
from dlc.buildspec.lockfile import parse_entries
from dlc.buildspec.variant import IndexedPackages
from dlc.core.errors import LockError
from dlc.core.platforms import Platform
from dlc.plan.targets import UV

UV_LOCK = "docker/export/prepare/uv.txt"
# What its wheel is for: any Python, and a C library that every suite has.
PYTHON, GLIBC = "3.11", "2.28"


def fetch_uv(lock: str, platform: Platform, cache: Path) -> bytes:
    """Return the program, of the version that this host has. `lock` is the text of UV_LOCK.

    The wheel is kept in the cache and checked there. Raises LockError for another version than the recorded one, and
    if no index has the wheel; PackageIndexError if an index does not answer.
    """
    pin = ("uv", UV.version)
    entries = parse_entries(lock)
    if pin not in entries:
        found = ", ".join(version for _, version in entries) or "none"
        raise LockError(
            f"{UV_LOCK}: expected the hashes of uv {UV.version}, which is installed, found those of {found}",
            f"pip install uv=={found}, or scripts/lock-tool.sh in a checkout",
        )
    # Without an address: pip's own default index.
    index = IndexedPackages("default", "", ("uv",), PYTHON, GLIBC, platform.machine)
    wheel = keep_wheel(pin, entries[pin], index, cache)
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"uv-{UV.version}.data/scripts/uv")
