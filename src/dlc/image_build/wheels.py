"""The folder of wheels for a build: from the user's own folders, and from indexes that the buildspec names.

Wheels of an index are downloaded on this host, by the lock's hashes. So the index is used for no other package, its
address and credentials stay out of the build, and it may be on this host's loopback or a folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.tags import compatible_tags, cpython_tags

from dlc.buildspec.lockfile import parse_entries
from dlc.buildspec.locks.direct import KEPT, list_sources
from dlc.buildspec.variant import IndexedPackages, normal_name
from dlc.core.atomic_files import draft_folder
from dlc.core.checkout import Tree, files_below, read_text
from dlc.core.digests import FOLDER_MODE, MODE, hash_file, say_damaged
from dlc.core.environment import (
    LOGIN_REMEDY,
    find_ca_bundle,
    hide_password,
    local_wheel_folders,
    mirror_variable,
    read_own_indexes,
    resolve_index,
    wheel_folder,
)
from dlc.core.errors import DlcError, LockError, PackageIndexError
from dlc.core.platforms import MACHINES, PLATFORMS, Platform
from dlc.core.process import run_program
from dlc.image_build import download
from dlc.plan.contexts import Pinned, Repo
from dlc.plan.plan import Plan

FETCH_SECONDS = 3600.0
NO_ANSWER = re.compile(r"Retrying|Max retries|[Cc]onnection|timed out|resolve|SSL|certificate")
# In pip's log: why it passed over a page. Without it, a server that fails looks like one that has no such package.
UNREAD = re.compile(r"Could not fetch URL \S+ (.*?)(?: for url: \S+)? - skipping")
BUSY = re.compile(r"^(429|5\d\d) (Client|Server) Error")
REFUSED = re.compile(r"40[137] Client Error")
# pip writes this before its own traceback, whose last line says what happened.
EXCEPTION = "ERROR: Exception:"
# A wheel's name has so many words: package, version, perhaps a build number, Python, binary interface, platform.
WORDS = (5, 6)
# A hash as a lock has it.
HASH = re.compile(r"sha256:([0-9a-f]{64})")
# What uv's wheel is for: any Python, and a C library that every suite has.
UV_PYTHON, UV_GLIBC = "3.11", "2.28"
MANYLINUX = ("manylinux2014", "manylinux2010", "manylinux1", "linux")


def make_wheels_folder(locks: Sequence[str], plan: Plan, tree: Tree, cache: Path) -> Path:
    """Make a folder with the wheels of these lock files that the user's folders or the buildspec's indexes have.

    Raises LockError for a file whose hash is not the lock's, and for a local version that no index has.
    """
    text = "".join(read_text(tree, path) for path in locks if path in tree)
    wheels = cache / "wheels" / hashlib.sha256(text.encode()).hexdigest()[:12]
    wheels.mkdir(parents=True, exist_ok=True)
    wheels.chmod(FOLDER_MODE)
    known = frozenset(HASH.findall(text))
    remove_unlocked(wheels, known)
    _add_direct(text, tree, wheels, cache)
    _add_own(text, known, [PLATFORMS[platform].machine for platform in plan.platforms], wheels, cache)
    folders = {path.rpartition("/")[0] for path in locks}
    indexed = [index for image in plan.targets for index in image.indexed
               if isinstance(image.context, Repo) and image.context.folder in folders]  # fmt: skip
    add_from_indexes(text, indexed, wheels, cache)
    require_places(text, indexed, wheels)
    return wheels


def _add_direct(lock: str, tree: Tree, wheels: Path, cache: Path) -> None:
    """Add the wheels of packages by address: those that the project keeps, and those that are fetched by their hash.

    Raises LockError for one that is built from sources and that the project does not have.
    """
    kept = {file.digest: (path, file.data) for path, file in files_below(tree, KEPT).items()}
    for digest, address in list_sources(lock).items():
        if digest in kept:
            name, data = kept[digest]
            with draft_folder(cache) as drafts:
                (drafts / name).write_bytes(data)
                (drafts / name).chmod(MODE)
                (drafts / name).replace(wheels / name)
        elif address.startswith("http"):
            found = download.fetch(Pinned(digest, address), cache, find_ca_bundle(os.environ)) / download.FILE
            link_or_copy(found, wheels / unquote(urlsplit(address).path).rpartition("/")[2], cache)
        else:
            raise LockError(f"{KEPT}: expected the wheel of {address} with sha256 {digest}, found none",
                            "commit the wheel with the lock, or dlc lock builds it again")  # fmt: skip


def _add_own(locks: str, known: Collection[str], machines: Collection[str], wheels: Path, cache: Path) -> None:
    """Add the wheels of the user's own folders that these locks name; of a version there is one for each Python.

    `known` are the locks' hashes, `machines` those that the plan is for.
    """
    have: dict[tuple[str, str], list[Path]] = {}
    for own in local_wheel_folders():
        for wheel, pin in list_wheels(own):
            if fits_machine(wheel, machines):
                have.setdefault(pin, []).append(wheel)
    for pin in parse_entries(locks):
        found = have.get(pin, [])
        locked = [wheel for wheel in found if (wheels / wheel.name).exists() or hash_file(wheel) in known]
        if found and not locked:
            raise LockError(f"{found[0]}: its sha256 is not the one in the lock", "put back the file, or dlc lock GLOB")
        for wheel in locked:
            if not (wheels / wheel.name).exists():
                link_or_copy(wheel, wheels / wheel.name, cache)


def add_from_indexes(lock: str, indexed: Iterable[IndexedPackages], folder: Path, cache: Path) -> None:
    """Add to `folder` each wheel of an image's lock (the text of its files) that has an index and is not there yet.

    Raises LockError for a wheel that no index has, PackageIndexError if an index does not answer.
    """
    for index in indexed:
        have = {
            pin for wheel, pin in list_wheels(folder)
            if _fits_python(wheel, index.python) and fits_machine(wheel, [index.machine])
        }  # fmt: skip
        for pin, entry in parse_entries(lock).items():
            if pin[0] in index.packages and pin not in have:
                wheel = keep_wheel(pin, entry, index, cache)
                link_or_copy(wheel, folder / wheel.name, cache)


def require_places(lock: str, indexed: Iterable[IndexedPackages], folder: Path) -> None:
    """Raise LockError for a local version that is not in `folder` and for which no index is named."""
    if read_own_indexes(os.environ).all:
        return
    have = {pin for _, pin in list_wheels(folder)}
    named = {name for index in indexed for name in index.packages}
    for name, version in parse_entries(lock):
        if "+" in version and name not in named and (name, version) not in have:
            raise LockError(
                f"{name}=={version}: a local version, for which the buildspec names no index\n"
                f"  folders: {_own_folders()}",
                "name its index under `indexes` in the buildspec, or a folder that holds its wheel in UV_FIND_LINKS",
            )


def list_wheels(folder: Path) -> list[tuple[Path, tuple[str, str]]]:
    """List each wheel of a folder with its normal name and version. Skip files whose name is no valid wheel name."""
    named = [(path, path.stem.split("-")) for path in sorted(folder.glob("*.whl"))]
    return [(path, (normal_name(words[0]), words[1])) for path, words in named if len(words) in WORDS]


def fits_machine(wheel: Path, machines: Collection[str]) -> bool:
    """Tell whether a wheel is for one of these machines (x86_64), or for any."""
    tags = wheel.stem.rpartition("-")[2]
    return any(name in tags for name in machines) or not any(name in tags for name in MACHINES)


def _fits_python(wheel: Path, python: str) -> bool:
    """Tell whether a wheel is for this Python (3.11): the images of a plan may have several."""
    major, minor = python.split(".")
    own, version = f"cp{major}{minor}", (int(major), int(minor))
    fitting = {
        (tag.interpreter, tag.abi)
        for tag in (*cpython_tags(version, [own], ["any"]), *compatible_tags(version, own, ["any"]))
    }
    interpreters, abis = (word.split(".") for word in wheel.stem.split("-")[-3:-1])
    return any((interpreter, abi) in fitting for interpreter in interpreters for abi in abis)


def link_or_copy(source: Path, target: Path, cache: Path) -> None:
    """Make a hard link, else a copy; a copy too of a file with another mode.

    Two builds may do this at the same time.
    """
    with draft_folder(cache) as drafts:
        draft = drafts / target.name
        try:
            os.link(source, draft)
            if stat.S_IMODE(draft.stat().st_mode) != MODE:
                draft.unlink()
        except OSError:
            draft.unlink(missing_ok=True)
        if not draft.exists():
            shutil.copy2(source, draft)
            draft.chmod(MODE)
        draft.replace(target)


def remove_unlocked(folder: Path, hashes: Collection[str]) -> None:
    """Remove the files of a folder of the cache that have none of these hashes: damaged files are made anew."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        # Another build may have been faster.
        with suppress(FileNotFoundError):
            if path.is_file() and hash_file(path) not in hashes:
                say_damaged(path)
                path.unlink()


def keep_wheel(pin: tuple[str, str], entry: str, index: IndexedPackages, cache: Path) -> Path:
    """Return the wheel of an entry, in the cache; it is fetched if it is not there."""
    fits = f"{entry}\n{index.python} {index.glibc}{MACHINES[index.machine].suffix}"
    kept = cache / "index-wheels" / hashlib.sha256(fits.encode()).hexdigest()[:16]
    remove_unlocked(kept, HASH.findall(entry))
    if not any(kept.glob("*.whl")):
        kept.mkdir(parents=True, exist_ok=True)
        with draft_folder(cache) as draft:
            wheel = _fetch_wheel(pin, entry, index, draft)
            wheel.chmod(MODE)
            wheel.replace(kept / wheel.name)
    return next(iter(sorted(kept.glob("*.whl"))))


def fetch_uv(lock: str, platform: Platform, cache: Path) -> bytes:
    """Return the program uv that the recipes record, for a platform; `lock` is the text of UV_LOCK.

    Its wheel is kept in the cache and checked there. Raises LockError if no index has the wheel; PackageIndexError if
    an index does not answer.
    """
    [(pin, entry)] = parse_entries(lock).items()
    # Without an address: pip's own default index.
    index = IndexedPackages("default", "", ("uv",), UV_PYTHON, UV_GLIBC, platform.machine)
    with zipfile.ZipFile(keep_wheel(pin, entry, index, cache)) as archive:
        return archive.read(f"uv-{pin[1]}.data/scripts/uv")


def _fetch_wheel(pin: tuple[str, str], entry: str, index: IndexedPackages, draft: Path) -> Path:
    """Fetch the wheel from the first index that has it: the user's indexes, then the buildspec's or its mirror."""
    lock, log = draft / "lock.txt", draft / "pip.log"
    lock.write_text(entry + "\n")
    found = ""
    own = read_own_indexes(os.environ).all
    for address in (*own, resolve_index(index.index, index.address, os.environ)):
        log.unlink(missing_ok=True)
        environment = {**_pip_environment(address), "PIP_LOG": str(log)}
        done = run_program(_pip_command(index, lock, draft), env=environment, check=False, timeout=FETCH_SECONDS)
        if not done.returncode:
            return next(draft.glob("*.whl"))
        found += f"\n  {hide_password(address)}: {_pip_reason(done.stderr, log, address)}"
    raise _missing_wheel_error(pin, index, found)


def _pip_command(index: IndexedPackages, lock: Path, draft: Path) -> list[str]:
    minor = int(index.glibc.partition(".")[2])
    platforms = [f"manylinux_2_{level}" for level in range(minor, 4, -1)]
    return [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--no-input", "--no-cache-dir", "--retries", "2", "--implementation", "cp", "--python-version", index.python,
        *(word for name in (*platforms, *MANYLINUX) for word in ("--platform", f"{name}_{index.machine}")),
        "--dest", str(draft), "--requirement", str(lock),
    ]  # fmt: skip


def _pip_environment(address: str) -> Mapping[str, str]:
    """Return variables by which pip uses this one index. Its address may hold credentials, so it is no argument."""
    folder = wheel_folder(address)
    ca = find_ca_bundle(os.environ)
    return {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": "" if folder else address,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": str(folder) if folder else "",
        "PIP_NO_INDEX": "1" if folder else "",
        # Mirrors inside a company often use http; the lock's hashes protect what comes from them.
        "PIP_TRUSTED_HOST": urlsplit(address).hostname or "" if address.startswith("http://") else "",
        **({"PIP_CERT": str(ca)} if ca else {}),
    }


def _pip_reason(stderr: str, log: Path, address: str) -> str:
    """Return pip's last error, and say so if the index gave no answer."""
    unread = UNREAD.findall(log.read_text(errors="replace")) if log.is_file() else []
    lines = stderr.replace(address, hide_password(address)).strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR:") and line != EXCEPTION] or lines[-1:]
    said = "".join(errors[:1]).removeprefix("ERROR: ")[:300]
    why = "".join(unread[-1:]).replace(address, hide_password(address))[:300]
    said = f"{said}; {why}" if why else said
    if REFUSED.search(why):
        return f"refuses ({said})"
    return f"does not answer ({said})" if NO_ANSWER.search(stderr + why) or BUSY.search(why) else said


def _missing_wheel_error(pin: tuple[str, str], index: IndexedPackages, found: str) -> DlcError:
    message = (
        f"{pin[0]}=={pin[1]}: expected a wheel with the lock's hash, found none\n  folders: {_own_folders()}{found}"
    )
    remedy = f"name a mirror of the index {index.index} in {mirror_variable(index.index)}, or a folder that holds the"
    kind = PackageIndexError if "does not answer (" in found or "refuses (" in found else LockError
    login = f"{LOGIN_REMEDY}, or " if "refuses (" in found else ""
    return kind(message, f"{login}{remedy} wheel in UV_FIND_LINKS (uv.toml and pip.conf are not read)")


def _own_folders() -> str:
    return ", ".join(str(folder) for folder in local_wheel_folders()) or "none"
