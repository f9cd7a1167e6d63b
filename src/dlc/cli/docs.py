"""`dlc docs`: writes the documentation of images anew from the built images."""

from __future__ import annotations

import argparse

from dlc import docs, facts
from dlc.engine.connection import connect
from dlc.errors import SpecError
from dlc.matrix import load_variants
from dlc.tree import find_root, read_tree

HELP = "write the README's table of images and docs/images.md from the built images"
EXAMPLE = "dlc docs --check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--check."""
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not what images say")


def run(args: argparse.Namespace) -> int:
    """Needs every image of the buildspec built. With --check, raise SpecError with the names of stale files."""
    root = find_root()
    engine = connect()
    images = [facts.capture(engine, variant.ref) for variant in load_variants(read_tree(root))]
    page = root / docs.PAGE
    written = {docs.README: (root / docs.README).read_text(), docs.PAGE: page.read_text() if page.exists() else ""}
    fresh = {docs.README: docs.readme(written[docs.README], images), docs.PAGE: docs.page(images)}
    stale = [path for path in fresh if fresh[path] != written[path]]
    if args.check and stale:
        raise SpecError("\n".join(f"{path}: not what the built images say" for path in stale), "dlc docs")
    for path in stale:
        (root / path).write_text(fresh[path])
        print(path)
    return 0
