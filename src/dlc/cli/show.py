"""`dlc show`: the settings of an image after all layers, and where each was set."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import add_globs, add_json, add_set, fill_globs, print_json, print_text

if TYPE_CHECKING:
    from dlc.buildspec.variant import Variant

HELP = "show the merged settings of an image and where each was set"
EXAMPLE = "dlc show pytorch-2.13-training-cpu-py311 --set base.image=debian:12"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set, --ref or --json."""
    add_globs(parser, at_least_one=True)
    add_set(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--ref", action="store_true", help="print the image's Docker reference and nothing else")
    add_json(form)


def run(args: argparse.Namespace) -> int:
    """Print the settings of each image asked for."""
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import read_workspace

    tree = read_workspace()
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    if args.ref:
        print("\n".join(variant.ref for variant in variants))
    elif args.json:
        print_json({variant.id: as_dict(variant) for variant in variants})
    else:
        print_text("\n\n".join(as_text(variant) for variant in variants))
    return 0


def as_dict(variant: Variant) -> dict[str, object]:
    """Return settings with origins, and what dlc derives from them."""
    from dlc.checked_yaml.yaml_layers import list_origins

    settings = {path: {"value": value, "origin": origin} for path, value, origin in list_origins(variant.node)}
    return {"settings": settings, "derived": derive_facts(variant)}


def derive_facts(variant: Variant) -> dict[str, str]:
    """Return what dlc derives from the settings."""
    return {
        "ref": variant.ref,
        "suite": variant.suite,
        "dockerfile": variant.dockerfile,
        "lock": variant.lock_folder,
        "framework requirements": " ".join(variant.framework_requirements),
        "training requirements": " ".join(variant.training_requirements),
    }


def as_text(variant: Variant) -> str:
    """Return the same for people."""
    from dlc.checked_yaml.yaml_layers import list_origins

    rows = list(list_origins(variant.node))
    path_width = max(len(path) for path, _, _ in rows)
    value_width = min(60, max(len(value) for _, value, _ in rows))
    lines = [f"  {path:<{path_width}}  {value:<{value_width}}  {origin}" for path, value, origin in rows]
    lines += [f"  {name:<{path_width}}  {value}" for name, value in derive_facts(variant).items()]
    return "\n".join([variant.id, *lines])
