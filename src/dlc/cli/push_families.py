"""Finds for `dlc push` and `dlc build --push` which images of other platforms share tags with those they push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlc.build import base_images
from dlc.buildspec.lockfile import explain_staleness
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.core.platforms import split_suffix
from dlc.engine.connection import Engine
from dlc.images.push.from_builder import move_tags
from dlc.images.push.platform_index import Family, list_siblings, make_family, publish_index
from dlc.images.push.registry.repository import Manifest, Repository


def find_families(
    variants: Sequence[Variant], tree: Tree, sets: Sequence[str], engine: Engine, created: Mapping[str, str]
) -> dict[str, Family]:
    """Map each image that there is for several platforms to its family, if all of them have a fresh lock.

    `created` is the label of that name of each image that is pushed. The engine says what base images mean.
    """
    found = {}
    for each in variants:
        if each.id in created and (names := list_siblings(each)):
            siblings = load_variants(tree, names, sets)
            if not any(explain_staleness(tree, sibling) for sibling in siblings):
                plan = base_images.plan_with_digests(siblings, tree, engine)
                found[each.id] = make_family(siblings, plan, created[each.id])
    return found


def put_foreign_first(identifier: str) -> bool:
    """Return a key that sorts images of other platforms first: the index is whole when the first platform's come."""
    return not split_suffix(identifier)[1].suffix


def move_family_tags(
    repository: Repository, identifier: str, image: Manifest, tags: tuple[str, ...], family: Family | None
) -> None:
    """Move an image's tags; those that it shares with images of other platforms, which are there, to an index."""
    _, platform = split_suffix(identifier)
    others = family.find_others(repository, platform.name) if family else {}
    if family is None or not others:
        move_tags(repository, image, tags)
        return
    move_tags(repository, image, tuple(tag for tag in tags if tag not in family.shared))
    publish_index(repository, {**others, platform.name: image}, family.shared)
