"""`dlc docs`: writes the documentation of images anew from those that are built."""

from __future__ import annotations

import argparse
import sys

from dlc.buildspec.selector import select
from dlc.cli.arguments import add_globs
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import SpecError
from dlc.engine import images
from dlc.engine.connection import Engine, connect
from dlc.inspection import facts
from dlc.inspection import pages as docs
from dlc.plan.plan import Plan, make_plan

HELP = "write the README's table of images and docs/images.md from the images that are built and up to date"
EXAMPLE = "dlc docs 'pytorch-*-cpu-*' --check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GLOB, --check."""
    add_globs(parser)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not what images say")


def run(args: argparse.Namespace) -> int:
    """Describe the built ones of the images that are selected; what the files say of the others stays.

    With --check, raise SpecError with the names of stale files.
    """
    root = find_root()
    plan = make_plan(read_tree(root))
    engine = connect()
    chosen = select(args.globs, plan.selected)
    built = [identifier for identifier in _built(plan, engine) if identifier in chosen]
    if left := [identifier for identifier in chosen if identifier not in built]:
        print(f"not built from these sources, left as they stand: {', '.join(left)}", file=sys.stderr)
    targets = [plan.target(identifier) for identifier in plan.selected]
    captured = [facts.capture(engine, plan.target(identifier).tags[0]) for identifier in built]
    page = root / docs.PAGE
    written = {docs.README: (root / docs.README).read_text(), docs.PAGE: page.read_text() if page.exists() else ""}
    fresh = {
        docs.README: docs.readme(written[docs.README], targets, captured),
        docs.PAGE: docs.page(written[docs.PAGE], targets, captured),
    }
    stale = [path for path in fresh if fresh[path] != written[path]]
    if args.check and stale:
        raise SpecError("\n".join(f"{path}: not what the built images say" for path in stale), "dlc docs")
    for path in stale:
        (root / path).write_text(fresh[path])
        print(path)
    return 0


def _built(plan: Plan, engine: Engine) -> list[str]:
    """Ids of the images that the engine has from the same content."""
    existing = images.keys(engine, [tag for target in plan.targets for tag in target.tags])
    return [d.id for d in plan.decisions(existing) if d.id in plan.selected and not d.build]
