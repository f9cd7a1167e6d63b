"""Finds for `dlc push` and `dlc build --push` which images of other platforms share tags with those they push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlc.buildspec.lockfile import explain_staleness
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree
from dlc.core.environment import PLATFORM
from dlc.core.labels import CREATED
from dlc.core.platforms import PLATFORMS, split_suffix
from dlc.engine.docker_client import Engine
from dlc.image_build import base_images
from dlc.plan.plan import Plan
from dlc.registry.platform_index import Family
from dlc.registry.tags import make_tags


def find_families(
    variants: Sequence[Variant], tree: Tree, sets: Sequence[str], engine: Engine, created: Mapping[str, str]
) -> dict[str, Family]:
    """Map each image that there is for several platforms to its family, if all of them have a fresh lock.

    `created` is the label of that name of each image that is pushed. The engine says what base images mean.
    """
    found = {}
    for each in variants:
        if each.id in created and (names := _list_siblings(each)):
            siblings = load_variants(tree, names, sets)
            if not any(explain_staleness(tree, sibling) for sibling in siblings):
                plan = base_images.plan_with_digests(siblings, tree, engine)
                found[each.id] = _make_family(siblings, plan, created[each.id])
    return found


def _list_siblings(variant: Variant) -> list[str]:
    """Return the identifiers of the images of one family, if there are several."""
    made = [PLATFORMS[name] for name, why in variant.platforms.items() if not why]
    return [f"{variant.family}{platform.suffix}" for platform in made] if len(made) > 1 else []


def _make_family(siblings: Sequence[Variant], plan: Plan, created: str) -> Family:
    """Return the family of these images, which the plan holds. `created` is the label of the one that is pushed."""
    tags = {
        each.settings.platform: make_tags(each.ref, {**plan.target(each.id).labels, CREATED: created})
        for each in siblings
    }
    return Family({name: found[0] for name, found in tags.items()}, tags[PLATFORM][1:])


def put_foreign_first(identifier: str) -> bool:
    """Return a key that sorts images of other platforms first: the index is whole when the first platform's come."""
    return not split_suffix(identifier)[1].suffix
