"""The folder of wheels for a build: from the user's own folders, and from indexes that the buildspec names."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection
from pathlib import Path

from dlc.build import index_wheels
from dlc.build.index_wheels import HASH, link, remove_other, wheels_in
from dlc.buildspec.lockfile import entries
from dlc.core.checkout import Tree, below
from dlc.core.digests import FOLDER_MODE, sha256
from dlc.core.environment import local_wheel_folders, other_find_links
from dlc.core.errors import LockError
from dlc.plan.contexts import Repo
from dlc.plan.plan import Plan


def folder(plan: Plan, tree: Tree, cache: Path) -> Path:
    """A folder with the wheels that the plan's locks name and that the user's folders or the buildspec's indexes have.

    Raises LockError for a file whose hash is not the lock's, and for a local version that no index has.
    """
    locked = {t.context.folder for t in plan.targets if "wheels" in t.contexts and isinstance(t.context, Repo)}
    locks = {name: _lock_text(tree, name) for name in sorted(locked)}
    text = "".join(locks.values())
    wheels = cache / "wheels" / hashlib.sha256(text.encode()).hexdigest()[:12]
    wheels.mkdir(parents=True, exist_ok=True)
    wheels.chmod(FOLDER_MODE)
    known = frozenset(HASH.findall(text))
    remove_other(wheels, known)
    for warning in other_find_links():
        print(f"dlc: warning: {warning}", file=sys.stderr)
    _add_own(text, known, wheels, cache)
    for image in plan.targets:
        if image.indexed and isinstance(image.context, Repo):
            index_wheels.add(_lock_text(tree, image.context.folder), image.indexed, wheels, cache)
    index_wheels.require_places(text, [index for image in plan.targets for index in image.indexed], wheels)
    return wheels


def _add_own(locks: str, known: Collection[str], wheels: Path, cache: Path) -> None:
    """Add the wheels of the user's own folders that these locks name; of a version there is one for each Python.

    `known` are the locks' hashes.
    """
    have: dict[tuple[str, str], list[Path]] = {}
    for own in local_wheel_folders():
        for wheel, pin in wheels_in(own):
            have.setdefault(pin, []).append(wheel)
    for pin in entries(locks):
        found = have.get(pin, [])
        locked = [wheel for wheel in found if (wheels / wheel.name).exists() or sha256(wheel) in known]
        if found and not locked:
            raise LockError(f"{found[0]}: its sha256 is not the one in the lock", "put back the file, or dlc lock GLOB")
        for wheel in locked:
            if not (wheels / wheel.name).exists():
                link(wheel, wheels / wheel.name, cache)


def _lock_text(tree: Tree, name: str) -> str:
    """All files of a lock, one after the other."""
    return "".join(file.data.decode() for _, file in sorted(below(tree, name).items()))
