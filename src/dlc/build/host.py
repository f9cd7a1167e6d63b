"""Looks at the host once and gives the build what it needs from there: base files, uv, wheels, secrets, proxies."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from uv import find_uv_bin

from dlc.build import fetch, index_wheels
from dlc.build.inputs import HostInputs
from dlc.buildspec.variant import normal_name
from dlc.core.drafts import draft_folder
from dlc.core.environment import ca_bundle, local_wheel_folders, proxies, secrets
from dlc.core.errors import LockError
from dlc.debian import recorded as debian
from dlc.debian import rootfs
from dlc.plan.dockerfile import without_secrets
from dlc.plan.plan import Plan


def collect(plan: Plan, root: Path, cache: Path) -> HostInputs:
    """Everything that the targets of a plan take from the host; makes base file systems that are missing.

    Raises BaseImageError and LockError.
    """
    wanted = {value for target in plan.targets for value in (target.context, *target.contexts.values())}
    contexts: dict[str, Path] = {}
    for name in sorted(value.removeprefix("host:") for value in wanted if value.startswith("host:")):
        if name.startswith("rootfs-"):
            suite = name.removeprefix("rootfs-")
            contexts[name] = rootfs.make(suite, debian.versions((root / debian.path(suite)).read_text()), cache)
        elif name == "tools":
            contexts[name] = _tools(cache)
        elif name == "ca":
            contexts[name] = _authorities(cache)
        elif name == "nothing":
            contexts[name] = _nothing(cache)
        else:
            contexts[name] = _wheels(plan, root, cache)
    for value in sorted(value for value in wanted if value.startswith("pinned:")):
        contexts[value] = fetch.folder(value, root, cache, ca_bundle(os.environ))
    known = secrets(os.environ)
    recipes = {target.dockerfile: _recipe(root / target.dockerfile, known, cache)
               for target in plan.targets if not target.inline}  # fmt: skip
    return HostInputs(root, contexts, proxies(os.environ), known, recipes)


def _recipe(path: Path, known: Mapping[str, str], cache: Path) -> Path:
    """The Dockerfile without mounts of secrets that this host does not have.

    BuildKit (0.13 of Docker Engine 26.1) reads the whole parent of a step that mounts a secret, there or not, for a key
    of its cache: 12 s for a CUDA framework.
    """
    text = without_secrets(path.read_text(), known)
    return _kept(cache / "recipes", text.encode(), "Dockerfile")


def _authorities(cache: Path) -> Path:
    """A folder with the certificate authorities that this host trusts as ca.pem, or with nothing."""
    bundle = ca_bundle(os.environ)
    return _kept(cache / "ca", bundle.read_bytes(), "ca.pem").parent if bundle else _nothing(cache)


def _nothing(cache: Path) -> Path:
    folder = cache / "nothing"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept(folder: Path, content: bytes, name: str) -> Path:
    """A file of this name and content, in a folder of its own below `folder`."""
    path = folder / hashlib.sha256(content).hexdigest()[:12] / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder.parent) as drafts:
            (drafts / name).write_bytes(content)
            (drafts / name).replace(path)
    return path


def _tools(cache: Path) -> Path:
    """A folder that holds the uv binary and nothing else."""
    source = Path(find_uv_bin())
    folder = cache / "tools" / _digest(source)[:12]
    if not (folder / "uv").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with draft_folder(cache) as drafts:
            shutil.copy2(source, drafts / "uv")
            (drafts / "uv").replace(folder / "uv")
    return folder


def _wheels(plan: Plan, root: Path, cache: Path) -> Path:
    """A folder with those wheels of the user's folders that a lock names, and of the buildspec's indexes, by hash."""
    folders = [root / t.context.removeprefix("repo:") for t in plan.targets if "wheels" in t.contexts]
    text = "".join(path.read_text() for folder in folders for path in sorted(folder.glob("*.txt")))
    house = cache / "wheels" / hashlib.sha256(text.encode()).hexdigest()[:12]
    house.mkdir(parents=True, exist_ok=True)
    known = set(re.findall(r"sha256:([0-9a-f]{64})", text))
    have = {_wheel_name(path): path for folder in local_wheel_folders() for path in sorted(folder.glob("*.whl"))}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE):
        wheel = have.get((normal_name(name), version))
        if wheel and not (house / wheel.name).exists():
            if _digest(wheel) not in known:
                raise LockError(
                    f"{wheel}: its sha256 is not the one in the lock", "put back the file, or dlc lock GLOB"
                )
            _link(wheel, house / wheel.name)
    for image in plan.targets:
        if image.indexed:
            lock = sorted((root / image.context.removeprefix("repo:")).glob("*.txt"))
            index_wheels.add("".join(path.read_text() for path in lock), image.indexed, house, cache)
    index_wheels.require_places(text, [index for image in plan.targets for index in image.indexed], house)
    return house


def _wheel_name(path: Path) -> tuple[str, str]:
    name, version = path.name.split("-")[:2]
    return normal_name(name), version


def _link(source: Path, target: Path) -> None:
    """Hard link where the file system allows, else a copy; whole, whatever another build does at the same time."""
    with draft_folder(target.parent.parent) as drafts:
        draft = drafts / target.name
        try:
            os.link(source, draft)
        except OSError:
            shutil.copy2(source, draft)
        draft.replace(target)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
