"""Prepares what a build takes from this host: base file system, uv, wheels, downloads, files, secrets, proxies."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path, PurePath

from uv import find_uv_bin

from dlc.buildspec.lockfile import without_headers
from dlc.core.atomic_files import draft_folder, hold_lock
from dlc.core.checkout import SourceFile, Tree, files_below, read_text
from dlc.core.digests import say_damaged
from dlc.core.environment import find_ca_bundle, find_secrets, list_lost_links, read_proxies
from dlc.core.platforms import Platform, split_suffix
from dlc.debian import rootfs, suites
from dlc.image_build import download, wheels
from dlc.image_build.bake_file import HostInputs
from dlc.plan.contexts import Context, Host, Pinned, Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import UV_LOCK, read_uv_version

SECRET = re.compile(r"--mount=type=secret,id=([A-Za-z0-9_]+)(?= |$)", re.MULTILINE)
# 1980: the time of folders, and the latest of a file. Nothing in an image is later.
SNAPSHOT_TIME = 315532800
FOLDER, FILE, PROGRAM = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFREG | 0o755


def collect(plan: Plan, tree: Tree, cache: Path) -> HostInputs:
    """Collect everything that the targets of a plan take from this host; missing base file systems are made.

    `tree` is what the plan was made from. Raises BaseImageError and LockError.
    """
    wanted = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    contexts: dict[Context, Path] = {}
    for warning in list_lost_links():
        print(f"dlc: warning: {warning}", file=sys.stderr)
    for context in sorted(wanted, key=str):
        if isinstance(context, Repo):
            contexts[context] = snapshot(without_headers(files_below(tree, context.folder)), cache)
        elif isinstance(context, Pinned):
            contexts[context] = download.fetch(context, cache, find_ca_bundle(os.environ))
        elif isinstance(context, Host):
            contexts[context] = _host_folder(context, plan, tree, cache)
    known = find_secrets(os.environ)
    dockerfiles = {target.dockerfile: _copy_dockerfile(read_text(tree, target.dockerfile), known, cache)
               for target in plan.targets if not target.inline}  # fmt: skip
    return HostInputs(contexts, dockerfiles, read_proxies(os.environ), known)


def install_programs(plan: Plan, cache: Path) -> None:
    """Install what `collect` runs on this host. Raises HostError, PackageIndexError."""
    contexts = [context for target in plan.targets for context in (target.context, *target.contexts.values())]
    systems = {context.name for context in contexts if isinstance(context, Host) and "rootfs-" in context.name}
    if systems:
        rootfs.require_program(cache)
    for system in systems:
        rootfs.require_foreign_program(system, cache)


def _host_folder(context: Host, plan: Plan, tree: Tree, cache: Path) -> Path:
    """Return the folder of a `Host` context."""
    name = context.name
    kind, _, suite = name.rpartition("rootfs-")
    if suite and suites.is_system(suite):
        made = rootfs.make_rootfs(suite, suites.read_recorded(tree, suite), cache)
        return rootfs.keep_rootfs(made, suite, cache) if kind == "tools-" else made
    base, platform = split_suffix(name)
    if base == "uv":
        return _make_uv_folder(platform, tree, cache)
    makers = {"ca": _copy_authorities, "nothing": _make_empty_folder}
    return makers[name](cache) if name in makers else wheels.make_wheels_folder(context.locks, plan, tree, cache)


def without_secrets(dockerfile: str, known: Collection[str]) -> str:
    """Return the Dockerfile without the mounts of secrets that are not in `known`; every line keeps its number.

    For a step that mounts a secret, given or not, BuildKit 0.13 (Docker Engine 26.1) hashes the whole parent of the
    step: 12 s for a CUDA framework.
    """
    return SECRET.sub(lambda mount: mount[0] if mount[1] in known else "", dockerfile)


def _copy_dockerfile(dockerfile: str, known: Collection[str], cache: Path) -> Path:
    return snapshot({"Dockerfile": SourceFile(without_secrets(dockerfile, known).encode())}, cache) / "Dockerfile"


def _copy_authorities(cache: Path) -> Path:
    """Make a folder with the certificate authorities that this host trusts as ca.pem, or with nothing."""
    bundle = find_ca_bundle(os.environ)
    return snapshot({"ca.pem": SourceFile(bundle.read_bytes())} if bundle else {}, cache)


def _make_empty_folder(cache: Path) -> Path:
    return snapshot({}, cache)


def explain_other_uv(tree: Tree) -> str:
    """Tell that this host's uv is not the one that the recipes record; empty if it is."""
    wanted, here = read_uv_version(tree), version("uv")
    if wanted == here:
        return ""
    return f"uv {here} is installed; images are made with uv {wanted}, which a build fetches by its hash"


def _make_uv_folder(platform: Platform, tree: Tree, cache: Path) -> Path:
    """Make a folder that holds the uv of the recipes and nothing else: this host's, or the one of its wheel."""
    if other := explain_other_uv(tree):
        remedy = f"pip install uv=={read_uv_version(tree)}"
        print(f"dlc: warning: {other}\n  remedy: {remedy}", file=sys.stderr, flush=True)
    if other or platform.suffix:
        program = wheels.fetch_uv(read_text(tree, UV_LOCK), platform, cache)
    else:
        program = Path(find_uv_bin()).read_bytes()
    return snapshot({"uv": SourceFile(program, executable=True)}, cache)


def snapshot(files: Tree, cache: Path) -> Path:
    """Make a folder below `cache` with exactly these files (by their path from it), named by their content.

    Edits of the checkout while a build runs do not reach the build. Two builds may want the same folder at once. A
    folder that is there is compared with the files, modes included, and made again if it differs.
    """
    digest = hashlib.sha256()
    for path, file in sorted(files.items()):
        digest.update(os.fsencode(path) + f"\0{file.executable}\0{file.digest}\n".encode())
    folder = cache / "snapshots" / digest.hexdigest()
    wanted = _wanted_files(files)
    if _found_files(folder) != wanted:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder.parent), draft_folder(cache) as drafts:
            # Else another build was faster.
            if (found := _found_files(folder)) != wanted:
                if found:
                    say_damaged(folder)
                    folder.rename(drafts / "damaged")
                _write_files(files, drafts / "files")
                (drafts / "files").rename(folder)
    return folder


def _wanted_files(files: Tree) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of all that is to lie in the folder, by the path from it."""
    found = {".": (FOLDER, b"")}
    for path, file in files.items():
        found |= {str(folder): (FOLDER, b"") for folder in PurePath(path).parents}
        found[path] = (PROGRAM if file.executable else FILE, file.data)
    return found


def _found_files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the same of what lies there; nothing if there is no such folder."""
    found = {}
    for path in (folder, *folder.rglob("*")) if folder.is_dir() else ():
        mode = path.lstat().st_mode
        found[str(path.relative_to(folder))] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def _write_files(files: Tree, folder: Path) -> None:
    folder.mkdir()
    for path, file in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(0o755 if file.executable else 0o644)
        os.utime(target, (derive_time(file.data),) * 2)
    for entry in (folder, *folder.rglob("*")):
        if entry.is_dir():
            # Modes reach the image: they must not depend on the umask.
            entry.chmod(0o755)
            os.utime(entry, (SNAPSHOT_TIME, SNAPSHOT_TIME))


def derive_time(content: bytes) -> int:
    """Derive seconds from the content alone: BuildKit takes a file of the same size and time for unchanged."""
    return SNAPSHOT_TIME - int(hashlib.sha256(content).hexdigest()[:6], 16)
