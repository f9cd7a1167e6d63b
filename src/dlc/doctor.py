"""Checks whether this host can build images: each finding has a verdict and, where it is bad, a remedy."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from dlc.cache import engine_folder
from dlc.engine import packages
from dlc.engine.connection import Engine, find
from dlc.errors import EngineError
from dlc.host import secrets
from dlc.process import run
from dlc.wheel_folders import local_wheel_folders

FREE_GB = 20.0  # two CPU images, their layers in the build cache, and the wheels
MEMORY_GB = 4.0


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `level` is "ok", "note" (works, with less) or "bad" (a build would fail)."""

    name: str
    level: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    """All findings, in the order in which a build needs the things."""
    return [*_engine(), _base(), _disk(), _memory(), _certificates(), _wheels()]


def _engine() -> list[Finding]:
    try:
        engine = find()
    except EngineError as error:
        return [Finding("engine", "bad", error.message, error.remedy)]
    if engine is None:
        return [_startable()]
    return [Finding("engine", "ok", f"{engine.version} ({engine.origin})"), _store(engine), _buildx(engine)]


def _startable() -> Finding:
    if os.environ.get("DLC_ENGINE") == "off":
        return Finding("engine", "bad", "none answers, DLC_ENGINE=off forbids to start one", packages.MANUAL_REMEDY)
    if reason := packages.can_install():
        return Finding("engine", "bad", f"none answers and none can be started: {reason}", packages.MANUAL_REMEDY)
    return Finding("engine", "note", "none answers; dlc build starts a private one")


def _store(engine: Engine) -> Finding:
    if engine.containerd_store:
        return Finding("image store", "ok", "containerd")
    return Finding("image store", "note", "classic: digests are known only after a push, no OCI export")


def _buildx(engine: Engine) -> Finding:
    done = run(["docker", "buildx", "version"], env=engine.environment, check=False)
    if done.returncode:
        return Finding("buildx", "bad", "no plug-in", "install the package docker-buildx or docker-buildx-plugin")
    return Finding("buildx", "ok", done.stdout.split()[1])


def _base() -> Finding:
    if shutil.which("mmdebstrap"):
        return Finding("base image", "ok", "mmdebstrap")
    if reason := packages.can_install():
        remedy = "install mmdebstrap, or build with --set base.image=debian:12"
        return Finding("base image", "bad", f"no mmdebstrap, and it cannot be installed: {reason}", remedy)
    return Finding("base image", "note", "mmdebstrap will be installed")


def _disk() -> Finding:
    folder = engine_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    level = "ok" if free >= FREE_GB else "bad"
    remedy = "" if level == "ok" else f"free {FREE_GB:.0f} GB, or set DLC_ENGINE_DIR to a roomier disk"
    return Finding("disk", level, f"{free:.0f} GB free at {folder}", remedy)


def _memory() -> Finding:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) / 1e6
    level = "ok" if available >= MEMORY_GB else "bad"
    remedy = "" if level == "ok" else f"free {MEMORY_GB:.0f} GB"
    return Finding("memory", level, f"{available:.0f} GB available", remedy)


def _certificates() -> Finding:
    place = secrets(os.environ).get("ca", "")
    return Finding("CA bundle", "ok", place.removeprefix("src=") or "the image's own")


def _wheels() -> Finding:
    folders = local_wheel_folders()
    return Finding(
        "local wheels", "ok", ", ".join(map(str, folders)) or "no folder named; packages come from the index"
    )
