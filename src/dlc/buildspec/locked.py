"""What the committed locks of an image say: whether they are fresh, and which version each package has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from dlc.buildspec.variant import Variant, normal_name
from dlc.core.checkout import Tree, below, text
from dlc.core.errors import LockError

FILES = ("framework.txt", "training.txt", "source.txt", "compiled.txt")
# First line of every lock file; the digest is Variant.lock_digest().
HEADER = "# dlc-lock-input: "
# Second line: how many bytes the files are that the entries name, as they are downloaded.
BYTES = "# dlc-lock-bytes: "
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s\\;]+)", re.MULTILINE)


def header(digest: str, size: int) -> str:
    """The first two lines of a lock file."""
    return f"{HEADER}{digest}\n{BYTES}{size}\n"


def download_bytes(tree: Tree, folder: str) -> int:
    """What all packages of a lock folder are to download, in bytes."""
    return sum(int(text(tree, f"{folder}/{name}").splitlines()[1].removeprefix(BYTES)) for name in FILES)


def versions(lock: str) -> dict[str, str]:
    """Normal package name -> version, from the text of one lock file."""
    return {normal_name(name): version for name, version in PIN.findall(lock)}


def locked_versions(tree: Tree, variant: Variant) -> Mapping[str, str]:
    """Every package of the image, over its lock files."""
    found: dict[str, str] = {}
    for name in FILES:
        found |= versions(text(tree, f"{variant.lock_folder}/{name}"))
    return found


def framework_version(tree: Tree, variant: Variant) -> str:
    """The locked version of the framework itself. Raises LockError when the lock holds none."""
    name = normal_name(variant.framework_requirements[0])
    found = locked_versions(tree, variant)
    if name not in found:
        path = f"{variant.lock_folder}/{FILES[0]}"
        raise LockError(
            f"{path}: expected {variant.framework_requirements[0]}, found no {name}", f"dlc lock {variant.id}"
        )
    return found[name]


def require_fresh(tree: Tree, variants: Iterable[Variant], globs: Sequence[str] = (), sets: Sequence[str] = ()) -> None:
    """Raise one LockError for all variants whose lock is missing or was made from other requirements.

    `globs` and `sets` are how the user asked for them: with --set, the identifiers may be in no file.
    """
    reasons = {variant.id: reason for variant in variants if (reason := staleness(tree, variant))}
    if reasons:
        words = [*(globs or ["*"]), *(word for text in sets for word in ("--set", text))] if sets else list(reasons)
        remedy = f"dlc lock {shlex.join(words)}"
        raise LockError("\n".join(f"{name}: {reason}" for name, reason in reasons.items()), remedy)


def staleness(tree: Tree, variant: Variant) -> str:
    """Why the lock may not be used, or an empty text."""
    present = below(tree, variant.lock_folder)
    if not present:
        return f"{variant.lock_folder}: no lock"
    for name in FILES:
        path = f"{variant.lock_folder}/{name}"
        if name not in present:
            return f"{path}: expected this file, found none"
        recorded, size = [*text(tree, path).splitlines(), "", ""][:2]
        if recorded != HEADER + variant.lock_digest():
            return f"{path}:1: stale: expected {HEADER + variant.lock_digest()!r}, found {recorded[:100]!r}"
        if not re.fullmatch(BYTES + r"\d+", size):
            return f"{path}:2: stale: expected {BYTES + 'NUMBER'!r}, found {size[:100]!r}"
    return ""
