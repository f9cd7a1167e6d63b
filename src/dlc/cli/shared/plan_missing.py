"""Shows for `dlc plan --missing-from` which images a registry lacks, or has under their tags from other sources."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import fill_globs, print_json, print_text, say_progress
from dlc.core.checkout import read_workspace
from dlc.core.environment import find_ca_bundle
from dlc.core.labels import CREATED, KEY, format_time
from dlc.engine.builders import make_client
from dlc.image_build.base_images import plan_with_digests
from dlc.plan.plan import plan_variants
from dlc.plan.targets import Target
from dlc.registry.client.destination import open_destination
from dlc.registry.client.repository import Repository
from dlc.registry.read_image import read_all_labels
from dlc.registry.tags import make_tags

# Of the tags that a push sets, only that of a day has a day in it.
ANY_DAY = format_time(0)


@dataclass(frozen=True)
class Missing:
    """An image that the registry lacks: its moving tag means no image, or one with another content key."""

    id: str
    # With its registry and its repository.
    tag: str
    why: str


def show_missing(args: argparse.Namespace) -> int:
    """Print the images that a registry lacks. Nothing is started, and nothing is written there."""
    tree = read_workspace()
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    # A stale lock ends the run before a registry is asked.
    plan_variants(variants, tree, args.globs, args.sets)
    place = open_destination(args.missing_from, find_ca_bundle(os.environ), option="--missing-from")
    plan = plan_with_digests(variants, tree, make_client())
    found = []
    for variant in variants:
        repository = place.reader(variant.header.framework, say_progress)
        target = plan.target(variant.id)
        tag = make_tags(variant.ref, {**target.labels, CREATED: ANY_DAY})[-1]
        if why := explain_absence(repository, tag, target):
            found.append(Missing(variant.id, f"{place.reference(variant.header.framework)}:{tag}", why))
    if args.json:
        print_json([asdict(each) for each in found])
    elif args.names:
        print("".join(f"{each.id}\n" for each in found), end="")
    else:
        print_text(as_text(found, len(variants), args.missing_from))
    return 0


def explain_absence(repository: Repository, tag: str, target: Target) -> str:
    """Tell why a tag does not mean the image of the plan; empty if it does, alone or in an index of platforms."""
    there = repository.any_manifest(tag)
    if there is None:
        return "no image"
    keys = [str(labels.get(KEY, "")) for labels in read_all_labels(repository, there)]
    return "" if target.key in keys else "an image of other sources"


def as_text(found: Sequence[Missing], count: int, registry: str) -> str:
    """Return a line for each image that is missing, and a line that counts."""
    width = max((len(each.id) for each in found), default=0)
    lines = [f"{each.id:<{width}}  {each.why} under {each.tag}" for each in found]
    return "\n".join([*lines, f"{len(found)} of {count} images are missing from {registry}"])
