"""`dlc lock`: resolves the packages of images anew and writes their hashed locks beside the recipes."""

from __future__ import annotations

import argparse
import sys

from dlc.buildspec.locked import entries
from dlc.buildspec.matrix import load_variants
from dlc.cli.arguments import add_set
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import other_find_links
from dlc.locks import python as lock

HELP = "resolve the packages of images into hashed locks"
EXAMPLE = "dlc lock 'pytorch-2.13-*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Selectors, --set."""
    parser.add_argument("glob", nargs="+", metavar="GLOB", help="which images, as in 'tensorflow-*'")
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Write four files per image; an image without a solution leaves its old lock as it was.

    With --set the lock of an image that asks for other packages then goes to a folder of its own, which git ignores.
    """
    root = find_root()
    for warning in other_find_links():
        print(f"dlc: warning: {warning}", file=sys.stderr)
    for variant in load_variants(read_tree(root), args.glob, args.sets):
        texts = lock.make(lock.request_of(variant))
        lock.store(texts, root / variant.lock_folder)
        print(f"{variant.lock_folder}: {sum(len(entries(text)) for text in texts.values())} packages")
    return 0
