"""Prepares what a build takes from this host: base file system, uv, wheels, downloads, secrets, proxies."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from uv import find_uv_bin

from dlc.build import fetch, wheels
from dlc.build.inputs import HostInputs
from dlc.build.snapshot import snapshot
from dlc.buildspec.lockfile import without_headers
from dlc.core.checkout import SourceFile, Tree, below, text
from dlc.core.environment import ca_bundle, proxies, secrets
from dlc.debian import rootfs
from dlc.debian import suites as debian
from dlc.debian.suites import SUITES
from dlc.plan.contexts import Context, Host, Pinned, Repo
from dlc.plan.plan import Plan

SECRET = re.compile(r"--mount=type=secret,id=([A-Za-z0-9_]+)(?= |$)", re.MULTILINE)


def collect(plan: Plan, tree: Tree, cache: Path) -> HostInputs:
    """Everything that the targets of a plan take from this host; missing base file systems are made.

    `tree` is what the plan was made from. Raises BaseImageError and LockError.
    """
    wanted = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    contexts: dict[Context, Path] = {}
    for context in sorted(wanted, key=str):
        if isinstance(context, Repo):
            contexts[context] = snapshot(without_headers(below(tree, context.folder)), cache)
        elif isinstance(context, Pinned):
            contexts[context] = fetch.folder(context, cache, ca_bundle(os.environ))
        elif isinstance(context, Host):
            contexts[context] = _host_folder(context.name, plan, tree, cache)
    known = secrets(os.environ)
    dockerfiles = {target.dockerfile: _dockerfile(text(tree, target.dockerfile), known, cache)
               for target in plan.targets if not target.inline}  # fmt: skip
    return HostInputs(contexts, dockerfiles, proxies(os.environ), known)


def install_programs(plan: Plan, cache: Path) -> None:
    """Install what `collect` runs on this host. Raises HostError, PackageIndexError."""
    contexts = [context for target in plan.targets for context in (target.context, *target.contexts.values())]
    if any(isinstance(context, Host) and "rootfs-" in context.name for context in contexts):
        rootfs.require_program(cache)


def _host_folder(name: str, plan: Plan, tree: Tree, cache: Path) -> Path:
    """The folder of a `Host` context."""
    kind, _, suite = name.rpartition("rootfs-")
    if suite and suite in SUITES:
        made = rootfs.make(suite, debian.recorded(tree, suite), cache)
        return rootfs.kept(made, suite, cache) if kind == "tools-" else made
    makers = {"uv": _uv, "ca": _authorities, "nothing": _nothing}
    return makers[name](cache) if name in makers else wheels.folder(plan, tree, cache)


def without_secrets(dockerfile: str, known: Collection[str]) -> str:
    """The Dockerfile without the mounts of secrets that are not among `known`; every line keeps its number.

    For a step that mounts a secret, given or not, BuildKit 0.13 (Docker Engine 26.1) hashes the whole parent of the
    step: 12 s for a CUDA framework.
    """
    return SECRET.sub(lambda mount: mount[0] if mount[1] in known else "", dockerfile)


def _dockerfile(dockerfile: str, known: Collection[str], cache: Path) -> Path:
    return snapshot({"Dockerfile": SourceFile(without_secrets(dockerfile, known).encode())}, cache) / "Dockerfile"


def _authorities(cache: Path) -> Path:
    """A folder with the certificate authorities that this host trusts as ca.pem, or with nothing."""
    bundle = ca_bundle(os.environ)
    return snapshot({"ca.pem": SourceFile(bundle.read_bytes())} if bundle else {}, cache)


def _nothing(cache: Path) -> Path:
    return snapshot({}, cache)


def _uv(cache: Path) -> Path:
    """A folder that holds the uv binary and nothing else."""
    return snapshot({"uv": SourceFile(Path(find_uv_bin()).read_bytes(), executable=True)}, cache)
