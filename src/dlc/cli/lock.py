"""`dlc lock`: resolves the packages of images and writes their locks."""

from __future__ import annotations

import argparse
import sys

from dlc.buildspec.lockfile import join_entries, parse_entries
from dlc.buildspec.matrix import load_variants
from dlc.cli.arguments import add_globs, add_set, say_progress
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import list_lost_links
from dlc.locks import resolve

HELP = "resolve the packages of images and write their locks, with hashes"
EXAMPLE = "dlc lock 'pytorch-2.13-*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set."""
    add_globs(parser, at_least_one=True)
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Write four files per image. If an image has no solution, its old lock stays.

    With --set, the lock of an image that then needs other packages or has another name goes to a folder of its own,
    which git ignores.
    """
    root = find_root()
    for warning in list_lost_links():
        print(f"dlc: warning: {warning}", file=sys.stderr)
    tree = read_tree(root)
    for variant in load_variants(tree, args.globs, args.sets):
        # With --set only what it asks for is to differ, not what indexes have newer since.
        plain = variant.plain if variant.plain and variant.plain.lock_folder != variant.lock_folder else None
        say_progress(f"{variant.id}: lock")
        texts = resolve.make_lock(resolve.make_request(variant, join_entries(tree, plain) if plain else ""))
        resolve.store_lock(texts, root / variant.lock_folder)
        print(f"{variant.lock_folder}: {sum(len(parse_entries(text)) for text in texts.values())} packages")
    return 0
