"""Looks at the host once and gives the build what it needs from there: base files, uv, wheels, secrets, proxies."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from uv import find_uv_bin

from dlc.build import fetch
from dlc.build.inputs import HostInputs
from dlc.build.snapshot import snapshot
from dlc.buildspec.variant import normal_name
from dlc.core.checkout import Tree, below, text
from dlc.core.errors import LockError
from dlc.core.wheel_folders import local_wheel_folders
from dlc.debian import recorded as debian
from dlc.debian import rootfs
from dlc.plan.contexts import Context, Host, Pinned, Repo
from dlc.plan.plan import Plan

PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")
CA_VARIABLES = ("DLC_CA_BUNDLE", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# Secret id -> the variables that may hold it, most specific first.
INDEX_VARIABLES = {
    "index_url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"),
    "extra_index_url": ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
}
SECRET = re.compile(r"--mount=type=secret,id=([A-Za-z0-9_]+)(?= |$)", re.MULTILINE)


def collect(plan: Plan, tree: Tree, cache: Path) -> HostInputs:
    """Everything that the targets of a plan take from the host; makes base file systems that are missing.

    `tree` is what the plan was made from. Raises BaseImageError and LockError.
    """
    wanted = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    contexts: dict[Context, Path] = {}
    for context in sorted(wanted, key=str):
        if isinstance(context, Repo):
            contexts[context] = snapshot(below(tree, context.folder), cache)
        elif isinstance(context, Pinned):
            contexts[context] = fetch.folder(context, cache, ca_bundle(os.environ))
        elif isinstance(context, Host):
            contexts[context] = _host_folder(context.name, plan, tree, cache)
    known = secrets(os.environ)
    recipes = {target.dockerfile: _recipe(text(tree, target.dockerfile), known, cache)
               for target in plan.targets if not target.inline}  # fmt: skip
    return HostInputs(contexts, recipes, proxies(os.environ), known)


def _host_folder(name: str, plan: Plan, tree: Tree, cache: Path) -> Path:
    """The folder of a `Host` context."""
    if name.startswith("rootfs-"):
        suite = name.removeprefix("rootfs-")
        return rootfs.make(suite, debian.recorded(tree, suite), cache)
    makers = {"uv": _uv, "ca": _authorities, "nothing": _nothing}
    return makers[name](cache) if name in makers else _wheels(plan, tree, cache)


def proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """BuildKit's predefined proxy arguments: they reach RUN steps and neither a layer nor the history."""
    names = (*PROXY_NAMES, *(name.lower() for name in PROXY_NAMES))
    return {name: environment[name] for name in names if environment.get(name)}


def secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Build secrets by id, as bake writes their source. Only ids and places, never a value."""
    found: dict[str, str] = {}
    for identifier, names in INDEX_VARIABLES.items():
        for name in names:
            if environment.get(name):
                found[identifier] = f"env={name}"
                break
    netrc = Path(environment.get("NETRC") or Path.home() / ".netrc")
    if netrc.is_file():
        found["netrc"] = f"src={netrc.absolute()}"
    return found


def ca_bundle(environment: Mapping[str, str]) -> Path | None:
    """The file of certificate authorities that this host trusts, where a variable names one that is there."""
    named = (Path(environment[name]).absolute() for name in CA_VARIABLES if environment.get(name))
    return next((path for path in named if path.is_file()), None)


def without_secrets(dockerfile: str, known: Collection[str]) -> str:
    """The Dockerfile without the mounts of secrets that are not among `known`; every line keeps its number.

    BuildKit (0.13 of Docker Engine 26.1) reads the whole parent of a step that mounts a secret, there or not, for a key
    of its cache: 12 s for a CUDA framework.
    """
    return SECRET.sub(lambda mount: mount[0] if mount[1] in known else "", dockerfile)


def _recipe(dockerfile: str, known: Collection[str], cache: Path) -> Path:
    return _kept(cache / "recipes", without_secrets(dockerfile, known).encode(), "Dockerfile")


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
        draft = path.with_name(f".{name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.rename(path)
    return path


def _uv(cache: Path) -> Path:
    """A folder that holds the uv binary and nothing else."""
    source = Path(find_uv_bin())
    folder = cache / "tools" / _digest(source)[:12]
    if not (folder / "uv").exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".uv.{os.getpid()}"
        shutil.copy2(source, draft)
        draft.rename(folder / "uv")
    return folder


def _wheels(plan: Plan, tree: Tree, cache: Path) -> Path:
    """A folder with those wheels of the user's local wheel folders that a lock names, each checked by its hash.

    A lock may pin a local version (torch==2.13.0+cpu) that no public index has: found nowhere, it is an error now.
    """
    folders = {t.context.folder for t in plan.targets if "wheels" in t.contexts and isinstance(t.context, Repo)}
    locks = "".join(file.data.decode() for folder in sorted(folders) for _, file in sorted(below(tree, folder).items()))
    house = cache / "wheels" / hashlib.sha256(locks.encode()).hexdigest()[:12]
    house.mkdir(parents=True, exist_ok=True)
    known = set(re.findall(r"sha256:([0-9a-f]{64})", locks))
    have = {_wheel_name(path): path for folder in local_wheel_folders() for path in sorted(folder.glob("*.whl"))}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", locks, re.MULTILINE):
        wheel = have.get((normal_name(name), version))
        if wheel is None:
            _require_index(name, version)
        elif not (house / wheel.name).exists():
            if _digest(wheel) not in known:
                raise LockError(
                    f"{wheel}: its sha256 is not the one in the lock", "put back the file, or dlc lock GLOB"
                )
            _link(wheel, house / wheel.name)
    return house


def _require_index(name: str, version: str) -> None:
    """Raise LockError for a local version when the user names no index that could serve it."""
    if "+" in version and not any(os.environ.get(variable) for names in INDEX_VARIABLES.values() for variable in names):
        raise LockError(
            f"{name}=={version}: a local version, found in no folder of UV_FIND_LINKS or PIP_FIND_LINKS",
            "name a folder that holds its wheel there, or an index that serves it in UV_INDEX",
        )


def _wheel_name(path: Path) -> tuple[str, str]:
    name, version = path.name.split("-")[:2]
    return normal_name(name), version


def _link(source: Path, target: Path) -> None:
    """Hard link where the file system allows, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
