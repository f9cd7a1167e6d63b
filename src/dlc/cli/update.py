"""`dlc update`: what newer versions there are of what this repository records; `--write` takes them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from dlc import debian, debian_record
from dlc.cache import cache_folder
from dlc.matrix import load_variants
from dlc.tree import find_root, read_tree

HELP = "propose newer versions of what is recorded"
EXAMPLE = "dlc update debian --write"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """WHAT, --write."""
    parser.add_argument("what", choices=["debian"], help="debian: the packages of docker/debian/*/versions.txt")
    parser.add_argument("--write", action="store_true", help="write what is proposed into the files")


def run(args: argparse.Namespace) -> int:
    """Print one line for each change."""
    root = find_root()
    for suite, names in debian_record.wanted(load_variants(read_tree(root))).items():
        file = root / debian.path(suite)
        found = debian_record.resolve(suite, names, cache_folder() / "apt")
        print(as_text(file.relative_to(root), debian.versions(file.read_text()) if file.exists() else {}, found))
        if args.write:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(debian.as_text(suite, found))
    return 0


def as_text(file: Path, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """The changes of one list, its name first."""
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    lines = [f"  {name} {old.get(name, '-')} -> {new.get(name, '-')}" for name in changed]
    return "\n".join([f"{file}: {len(new)} packages, {len(changed)} changes", *lines])
