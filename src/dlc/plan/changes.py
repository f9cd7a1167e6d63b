"""What other recipes change in images: settings, packages, locks and the parts that are built again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlc.buildspec.lockfile import explain_staleness, locked_versions
from dlc.buildspec.variant import Variant
from dlc.checked_yaml.yaml_layers import list_origins
from dlc.core.checkout import Tree
from dlc.plan.plan import plan_variants

# What git and CI systems write if there is no revision before: of a new branch, for example.
NO_REVISION = "0" * 40
SAME, CHANGED, ADDED, REMOVED = "same", "changed", "added", "removed"


@dataclass(frozen=True)
class Difference:
    """One value before and after; an empty text stands for none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class ImageChanges:
    """What becomes of one image."""

    id: str
    # SAME, CHANGED, ADDED or REMOVED.
    what: str
    settings: tuple[Difference, ...] = ()
    # Of a project's image those of the released lock below it: `dlc lock` takes them where it can.
    packages: tuple[Difference, ...] = ()
    # Why its lock cannot be used any more; empty if it can.
    lock: str = ""
    # Parts that get another content key, lowest first; empty if a lock is stale, because then nobody knows.
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rebuilt:
    """An image that has another content key than before."""

    id: str
    # Parts with another key, lowest first; empty if there is nothing to compare with.
    parts: tuple[str, ...]
    # Why there is nothing to compare with; else empty.
    why: str = ""


def find_rebuilt(
    before: Sequence[Variant] | None, after: Sequence[Variant], old: Tree, new: Tree
) -> tuple[Rebuilt, ...]:
    """Find the images that have another content key than before. `before` is None if nobody can read what was.

    Raises LockError for a stale lock of now, as a plan does.
    """
    known = {variant.id: variant for variant in before or ()}
    found = []
    for variant in after:
        if before is None:
            found.append(Rebuilt(variant.id, (), "this dlc cannot read the buildspec of that time"))
        elif variant.id not in known:
            found.append(Rebuilt(variant.id, (), "the image is new"))
        elif stale := explain_staleness(old, known[variant.id]):
            found.append(Rebuilt(variant.id, (), f"its lock could not be used then: {stale}"))
        elif parts := _list_changed_parts(known[variant.id], variant, old, new):
            found.append(Rebuilt(variant.id, parts))
    return tuple(found)


def compare_images(
    before: Sequence[Variant], after: Sequence[Variant], old: Tree, new: Tree
) -> tuple[ImageChanges, ...]:
    """Compare images by their identifiers; those that are gone come last."""
    known = {variant.id: variant for variant in before}
    found = [
        _compare(known[variant.id], variant, old, new) if variant.id in known else ImageChanges(variant.id, ADDED)
        for variant in after
    ]
    left = {variant.id for variant in after}
    return (*found, *(ImageChanges(variant.id, REMOVED) for variant in before if variant.id not in left))


def _compare(before: Variant, after: Variant, old: Tree, new: Tree) -> ImageChanges:
    settings = find_differences(_list_settings(before), _list_settings(after))
    packages = find_differences(locked_versions(old, before.base or before), locked_versions(new, after.base or after))
    lock = explain_staleness(new, after)
    parts = () if lock or explain_staleness(old, before) else _list_changed_parts(before, after, old, new)
    what = CHANGED if settings or packages or lock or parts else SAME
    return ImageChanges(after.id, what, settings, packages, lock, parts)


def _list_settings(variant: Variant) -> dict[str, str]:
    return {path: value for path, value, _ in list_origins(variant.node)}


def _list_changed_parts(before: Variant, after: Variant, old: Tree, new: Tree) -> tuple[str, ...]:
    """List the targets of an image that have another content key, the image's own as `image`."""
    keys = {target.id: target.key for target in plan_variants([before], old).targets}
    changed = [target.id for target in plan_variants([after], new).targets if keys.get(target.id) != target.key]
    return tuple("image" if name == after.id else name.removeprefix(f"{after.id}/") for name in changed)


def find_differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Difference, ...]:
    """Find the names whose values differ, in their order."""
    return tuple(
        Difference(name, before.get(name, ""), after.get(name, ""))
        for name in sorted({**before, **after})
        if before.get(name, "") != after.get(name, "")
    )
