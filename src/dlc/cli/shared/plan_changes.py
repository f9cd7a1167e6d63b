"""Shows for `dlc plan --against` what another version of dlc changes in images, a project's among them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import dlc
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.shared.arguments import fill_globs, print_json, print_text
from dlc.core.checkout import Tree, find_workspace, read_other_recipes, read_project, read_workspace
from dlc.core.errors import SelectorError
from dlc.plan.changes import SAME, Difference, ImageChanges, compare_images


def show_changes(args: argparse.Namespace) -> int:
    """Print what would be different with the other recipes, and what to do about it."""
    workspace = find_workspace()
    here = read_workspace(workspace)
    own = read_project(workspace.project) if workspace.project else {}
    there = {**read_other_recipes(args.against), **own}
    fill_globs(args, here)
    found = compare_images(_load(here, args), _load(there, args), here, there)
    if args.json:
        print_json([asdict(each) for each in found])
    else:
        print_text(as_text(found, args.against))
    return 0


def _load(tree: Tree, args: argparse.Namespace) -> Sequence[Variant]:
    """Load what the globs select; an image that one version has and the other has not is no mistake."""
    try:
        return load_variants(tree, args.globs, args.sets, args.platform)
    except SelectorError:
        return ()


def as_text(found: Sequence[ImageChanges], against: Path) -> str:
    """Return a paragraph for each image that changes, and a line that counts."""
    changed = [each for each in found if each.what != SAME]
    head = f"dlc {dlc.__version__} -> {against}: {len(changed)} of {len(found)} images change"
    return "\n".join([head, *(line for each in changed for line in ("", *_describe(each)))])


def _describe(each: ImageChanges) -> list[str]:
    lines = [f"{each.id}: {each.what}"]
    lines += [f"  setting  {_format(difference)}" for difference in each.settings]
    lines += [f"  package  {_format(difference)}" for difference in each.packages]
    lines += [f"  built again  {', '.join(each.parts)}"] if each.parts else []
    lines += [f"  lock  {each.lock}", f"  after the upgrade: dlc lock {each.id}"] if each.lock else []
    return lines


def _format(difference: Difference) -> str:
    return f"{difference.name}  {difference.before or '-'} -> {difference.after or '-'}"
