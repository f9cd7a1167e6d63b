"""Checks that the Debian packages of images exist, before a build would find out minutes later."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlc.buildspec.variant import Variant
from dlc.checked_yaml.problems import Problem, raise_report
from dlc.checked_yaml.yaml_layers import Node
from dlc.core.atomic_files import replace_text
from dlc.core.checkout import Tree
from dlc.core.errors import DlcError, PackageIndexError
from dlc.debian.package_names import find_unknown
from dlc.debian.suites import parse_versions, versions_path

FOLDER = "debian-names"
# Names that were found before, of one system.
KNOWN = "known.txt"


def require_os_packages(variants: Iterable[Variant], tree: Tree, cache: Path) -> None:
    """Raise the report of names under `os_packages` that are no package of the image's Debian.

    A recorded version, or an earlier answer, stands for a name. If Debian's lists cannot be had, that is a warning.
    """
    problems: list[Problem] = []
    for variant in variants:
        names = list_unrecorded(variant, tree)
        if not names:
            continue
        try:
            if variant.settings.base.image:
                raise PackageIndexError(f"{variant.settings.base.image} has lists of its own")
            problems += find_problems(variant, ask_for_unknown(variant.system, names, cache / FOLDER / variant.system))
        except (DlcError, OSError) as error:
            said = error.message if isinstance(error, DlcError) else str(error)
            print(f"dlc: warning: {variant.id}: os_packages {', '.join(names)}: not checked: {said}", file=sys.stderr)
    raise_report(problems)


def list_unrecorded(variant: Variant, tree: Tree) -> list[str]:
    """List the Debian packages of an image that have no recorded version."""
    path = versions_path(variant.system)
    recorded = parse_versions(tree[path].data.decode(errors="replace")) if path in tree else {}
    return sorted({*variant.settings.base.os_packages, *variant.settings.os_packages} - recorded.keys())


def ask_for_unknown(system: str, names: Sequence[str], folder: Path) -> dict[str, str]:
    """Map the names that Debian does not have to the nearest one. Names that it has are not asked for again."""
    kept = folder / KNOWN
    known = set(kept.read_text().split()) if kept.exists() else set()
    left = [name for name in names if name not in known]
    unknown = find_unknown(system, left, folder) if left else {}
    if found := set(left) - unknown.keys():
        replace_text(kept, "".join(f"{name}\n" for name in sorted(known | found)))
    return unknown


def find_problems(variant: Variant, unknown: dict[str, str]) -> list[Problem]:
    """Return a problem for each unknown name, at the place that names it."""
    return [
        Problem(
            _find_node(variant, name).mark, "os_packages", f"a package of Debian {variant.suite}", repr(name),
            f"did you mean {near!r}?" if near else "",
        )
        for name, near in sorted(unknown.items())
    ]  # fmt: skip


def _find_node(variant: Variant, name: str) -> Node:
    """Return the entry of a list that has the name, else the whole image."""
    for path in (("os_packages",), ("base", "os_packages")):
        listed = variant.node.at(path)
        for item in listed.value if listed and isinstance(listed.value, tuple) else ():
            if item.plain() == name:
                return item
    return variant.node
