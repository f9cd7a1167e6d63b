"""Checks whether this host can build images: each finding has a verdict and, if it is bad, a remedy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import Tree, read_workspace
from dlc.core.environment import (
    PLATFORM,
    engine_folder,
    find_ca_bundle,
    list_lost_links,
    local_wheel_folders,
    starts_no_engine,
)
from dlc.core.errors import DlcError, EngineError
from dlc.debian import apt
from dlc.engine.connection import QUICK_SECONDS, absence_error, find_engine
from dlc.engine.docker_client import Engine
from dlc.engine.images import find_keys
from dlc.engine.remedies import advise_without_engine
from dlc.image_build.disk_space import GB, WORK, data_folder, estimate_need
from dlc.image_build.host_inputs import explain_other_uv
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import UV_LOCK, read_uv_version

# For one build: each core compiles Horovod, and all else needs little. Measured with three images.
MEMORY_PER_CORE_GB = 1.0
# What sees what this user cannot.
AS_ROOT = "sudo dlc doctor"
BUILDX_REMEDY = "sudo apt-get install docker-buildx, or of Docker's own packages docker-buildx-plugin"


@dataclass(frozen=True)
class Finding:
    """The result of one check. `level` is "ok", "note" (works, with limits) or "bad" (a build would fail)."""

    name: str
    level: str
    found: str
    remedy: str = ""


def examine_host() -> list[Finding]:
    """Return all findings, in the order in which a build needs what they are about."""
    tree, plan = _load_all_images()
    engine, found = _check_engine()
    existing: Mapping[str, str] = {}
    try:
        existing = find_keys(engine, plan.refs, QUICK_SECONDS) if engine and plan else {}
    except DlcError as error:
        engine, found = None, Finding("engine", "bad", error.message, error.remedy)
    missing = plan.without([name for name in plan.selected if plan.target(name).tags[0] in existing]) if plan else None
    checks: dict[str, Callable[[], Finding]] = {"platform": lambda: _check_platform(engine)}
    if engine:
        checks |= {"image store": lambda: _check_store(engine), "buildx": lambda: _check_buildx(engine)}
    checks |= {
        "base image": _check_base,
        "disk": lambda: _check_disk(engine, missing, tree),
        "memory": lambda: _check_memory(missing),
        "CA bundle": _check_certificates,
        "local wheels": _check_wheels,
        "uv": lambda: _check_uv(tree),
    }
    return [found, *(_run_check(name, check) for name, check in checks.items())]


def _check_engine() -> tuple[Engine | None, Finding]:
    try:
        engine = find_engine()
    except EngineError as error:
        return None, Finding("engine", "bad", error.message, error.remedy)
    if engine is None:
        return None, _check_startable()
    try:
        engine.require_buildkit()
    except EngineError as error:
        return engine, Finding("engine", "bad", error.message, error.remedy)
    return engine, Finding("engine", "ok", f"{engine.version} ({engine.origin})")


def _run_check(name: str, check: Callable[[], Finding]) -> Finding:
    """Return what a check found. If this host does not let us make the check, that is a finding like others."""
    try:
        return check()
    except DlcError as error:
        return Finding(name, "bad", error.message, error.remedy)
    except PermissionError as error:
        return Finding(name, "note", f"could not be checked: {error}", AS_ROOT)
    except (OSError, KeyError, ValueError) as error:
        return Finding(name, "note", f"could not be checked: {error}", "DLC_DEBUG=1 dlc doctor")


def _check_platform(engine: Engine | None) -> Finding:
    try:
        (engine or Engine(None, "", "", containerd_store=True)).require_platform()
    except EngineError as error:
        return Finding("platform", "bad", error.message, error.remedy)
    return Finding("platform", "ok", PLATFORM)


def _load_all_images() -> tuple[Tree, Plan | None]:
    """Load the checkout and the plan of all its images. None if there is no checkout or its buildspec has mistakes."""
    try:
        tree = read_workspace()
        return tree, make_plan(tree)
    except DlcError:
        return {}, None


def _check_startable() -> Finding:
    remedy = advise_without_engine()
    if starts_no_engine(os.environ):
        return Finding("engine", "bad", f"{absence_error()}, and DLC_ENGINE=off forbids to start one", remedy)
    if reason := apt.can_install():
        return Finding("engine", "bad", f"{absence_error()}, and none can be started: {reason}", remedy)
    return Finding("engine", "note", f"{absence_error()}; dlc build starts a private one", "dlc engine start")


def _check_store(engine: Engine) -> Finding:
    if engine.containerd_store:
        return Finding("image store", "ok", "containerd: images take twice the room and longer to store")
    return Finding("image store", "ok", "classic")


def _check_buildx(engine: Engine) -> Finding:
    done = engine.docker("buildx", "version", check=False, timeout=QUICK_SECONDS)
    if done.returncode:
        return Finding("buildx", "bad", "no plug-in", BUILDX_REMEDY)
    return Finding("buildx", "ok", " ".join(done.stdout.split()[1:2]))


def _check_base() -> Finding:
    if shutil.which("mmdebstrap"):
        return Finding("base image", "ok", "mmdebstrap")
    if reason := apt.can_install():
        remedy = "sudo apt-get install mmdebstrap, or: dlc build ID --set base.image=debian:12"
        return Finding("base image", "bad", f"no mmdebstrap, and it cannot be installed: {reason}", remedy)
    return Finding("base image", "note", "mmdebstrap will be installed by dlc build", "apt-get install mmdebstrap")


def _check_disk(engine: Engine | None, missing: Plan | None, tree: Tree) -> Finding:
    folder = data_folder(engine) if engine else engine_folder()
    if folder is None:
        place = engine.data_root if engine else ""
        found = f"{place or 'the disk of the engine'}: this user cannot see it from here"
        return Finding("disk", "note", found, AS_ROOT)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{free / GB:.0f} GB free at {folder}"
    if missing is None:
        return Finding(
            "disk", "note", f"{found}; the size of the images is not known: no checkout with a valid buildspec",
            "dlc plan, which says what is wrong",
        )  # fmt: skip
    variants = [variant for variant in load_variants(tree) if variant.id in missing.selected]
    needed = estimate_need(variants, (), containerd_store=engine is not None and engine.containerd_store)
    wanted = f"the {len(needed.images)} images that are not built need up to {needed.total / GB:.0f} GB"
    if free >= needed.total:
        return Finding("disk", "ok", f"{found}; {wanted}")
    smallest = min(needed.images.values()) + WORK
    remedy = "dlc build ID for one of them; dlc clean and docker builder prune free space; or DLC_ENGINE_DIR=FOLDER "
    remedy += "on a roomier disk"
    return Finding("disk", "bad" if free < smallest else "note", f"{found}; {wanted}", remedy)


def _check_memory(missing: Plan | None) -> Finding:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) / 1e6
    each = MEMORY_PER_CORE_GB * (os.cpu_count() or 1)
    together = len(missing.selected) if missing else 1
    found = f"{available:.0f} GB available; one build needs up to {each:.0f} GB"
    if available < each:
        return Finding("memory", "bad", found, f"end what takes it (ps aux --sort=-rss | head): {each:.0f} GB free")
    if available < each * together:
        fit = int(available / each)
        return Finding("memory", "note", f"{found}; {together} images are not built", f"dlc build ID, {fit} at a time")
    return Finding("memory", "ok", found)


def _check_certificates() -> Finding:
    return Finding("CA bundle", "ok", str(find_ca_bundle(os.environ) or "the image's own"))


def _check_uv(tree: Tree) -> Finding:
    if UV_LOCK not in tree:
        return Finding("uv", "note", f"{version('uv')}; no recipes say which one images are made with", "dlc plan")
    if other := explain_other_uv(tree):
        return Finding("uv", "note", other, f"pip install uv=={read_uv_version(tree)}")
    return Finding("uv", "ok", f"{version('uv')}, with which images are made")


def _check_wheels() -> Finding:
    found = ", ".join(map(str, local_wheel_folders())) or "no folder named; packages come from the index"
    lost = list_lost_links()
    if lost:
        return Finding("local wheels", "note", "; ".join([found, *lost]), "unset it, or export it with a folder")
    return Finding("local wheels", "ok", found)
