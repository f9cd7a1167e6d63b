"""`dlc lock`: resolves the packages of images and writes their locks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import dlc
from dlc.buildspec.lockfile import join_entries, parse_entries
from dlc.buildspec.locks import direct, resolve
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli.arguments import add_globs, add_set, fill_globs, say_progress
from dlc.core.atomic_files import report_disk_errors
from dlc.core.checkout import INSTALLED, Tree, Workspace, files_below, find_root, find_workspace, read_workspace
from dlc.core.environment import list_lost_links
from dlc.core.errors import UsageError

HELP = "resolve the packages of images and write their locks, with hashes"
EXAMPLE = "dlc lock 'pytorch-2.13-*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set."""
    add_globs(parser, at_least_one=True)
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Write five files per image. If an image has no solution, its old lock stays.

    With --set, the lock of an image that then needs other packages or has another name goes to a folder of its own,
    which git ignores.
    """
    workspace = find_workspace()
    for warning in list_lost_links():
        print(f"dlc: warning: {warning}", file=sys.stderr)
    tree = read_workspace(workspace)
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    homes = {variant.id: find_home(variant, workspace) for variant in variants}
    for variant in variants:
        print(write_lock(variant, tree, homes[variant.id]))
    return 0


def find_home(variant: Variant, workspace: Workspace) -> Path:
    """Return the folder that the image's lock folder is in: the project's, or that of the recipes.

    Raises UsageError for a released image outside a checkout: its lock is part of the release.
    """
    if variant.base and workspace.project:
        return workspace.project
    if workspace.recipes == INSTALLED:
        raise UsageError(
            f"{variant.id}: the lock of a released image belongs to dlc {dlc.__version__}, and is not written",
            "for other packages make a project: `dlc init`, packages in its dlc.yml, and `dlc lock` there",
        )
    return find_root()


def write_lock(variant: Variant, tree: Tree, home: Path) -> str:
    """Resolve and write the lock of one image; return the line that says so.

    With --set, and on top of a released image, only what is asked for is to differ, not what indexes have newer since.
    """
    below = variant.plain if variant.plain and variant.plain.lock_folder != variant.lock_folder else variant.base
    say_progress(f"{variant.id}: lock")
    asked = resolve.make_request(variant, join_entries(tree, below) if below else "")
    with direct.with_wheels(asked) as (request, wheels):
        texts = resolve.make_lock(request)
        with report_disk_errors(home, ""):
            direct.keep_wheels(wheels, home, variant)
            resolve.store_lock(texts, home / variant.lock_folder)
    return f"{variant.lock_folder}: {sum(len(parse_entries(text)) for text in texts.values())} packages"


def lock_new_project(
    variants: Sequence[Variant], tree: Tree, workspace: Workspace, args: argparse.Namespace
) -> tuple[Tree, Sequence[Variant]]:
    """Write the lock of a project that has none yet; return the tree and the images with it.

    A stale lock is an error of the plan: versions change if somebody asks for that.
    """
    new = [each for each in variants if each.base and not each.plain and not files_below(tree, each.lock_folder)]
    if not new:
        return tree, variants
    for variant in new:
        say_progress(write_lock(variant, tree, find_home(variant, workspace)))
    tree = read_workspace(workspace)
    return tree, load_variants(tree, args.globs, args.sets, args.platform)
